from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


def make_default_team(apps, schema_editor):
    apps.get_model("proxy", "Team").objects.get_or_create(name="default")


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Team",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(help_text="Who or what uses it.", max_length=100)),
                ("public_id", models.CharField(editable=False, max_length=8, unique=True)),
                ("digest", models.CharField(editable=False, max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "expires_at",
                    models.DateTimeField(
                        blank=True, help_text="Refused from then on; empty: never.", null=True
                    ),
                ),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "last_used_at",
                    models.DateTimeField(
                        blank=True, editable=False, help_text="Exact to a minute.", null=True
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="keys",
                        to="proxy.team",
                    ),
                ),
            ],
            options={
                "verbose_name": "API key",
                "ordering": ["team__name", "name", "public_id"],
            },
        ),
        migrations.RunPython(make_default_team, migrations.RunPython.noop),
    ]
