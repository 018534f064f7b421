from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def unset(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """A box that was never ticked said nothing; now it can also say no."""
    presets = apps.get_model("models_registry", "Preset")
    presets.objects.filter(load_on_startup=False).update(load_on_startup=None)


def ticked_or_not(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    presets = apps.get_model("models_registry", "Preset")
    presets.objects.filter(load_on_startup=None).update(load_on_startup=False)


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0007_sources_layers_downloads")]

    operations = [migrations.RunPython(unset, ticked_or_not)]
