
import django.core.validators
import django.db.models.deletion
import models_registry.validation
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ModelFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(help_text='Absolute path of the GGUF.', max_length=1024, unique=True)),
                ('mmproj', models.CharField(blank=True, help_text='Absolute path of the projector GGUF.', max_length=1024, verbose_name='projector')),
                ('size', models.BigIntegerField(default=0, editable=False, help_text='Bytes, all shards.')),
                ('source', models.CharField(choices=[('admin', 'added by hand'), ('models_dir', 'found in the models folder'), ('demo', 'the demo model'), ('command_line', "named on serve's command line")], default='admin', editable=False, max_length=20)),
                ('missing_since', models.DateTimeField(blank=True, editable=False, help_text='Set while the file cannot be found.', null=True)),
            ],
            options={
                'ordering': ['path'],
            },
        ),
        migrations.CreateModel(
            name='RegistryRevision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.BigIntegerField(default=0)),
                ('demo_registered', models.BooleanField(default=False, help_text='The demo was registered once; deleted, it does not come back.')),
            ],
        ),
        migrations.CreateModel(
            name='Preset',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='What a client writes as `model`.', max_length=200, unique=True, validators=[models_registry.validation.validate_name])),
                ('source', models.CharField(choices=[('admin', 'added by hand'), ('models_dir', 'found in the models folder'), ('demo', 'the demo model'), ('command_line', "named on serve's command line")], default='admin', editable=False, max_length=20)),
                ('ctx_size', models.PositiveIntegerField(blank=True, help_text='Tokens, shared by the slots (--ctx-size).', null=True, verbose_name='context')),
                ('parallel', models.PositiveIntegerField(blank=True, help_text='Answers at once (--parallel).', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='slots')),
                ('n_gpu_layers', models.CharField(blank=True, help_text='A number, `auto` or `all` (--n-gpu-layers).', max_length=10, null=True, validators=[models_registry.validation.validate_gpu_layers], verbose_name='GPU layers')),
                ('threads', models.PositiveIntegerField(blank=True, help_text='CPU threads (--threads).', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('batch_size', models.PositiveIntegerField(blank=True, help_text='Tokens (--batch-size).', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('ubatch_size', models.PositiveIntegerField(blank=True, help_text='Tokens (--ubatch-size).', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('cache_type_k', models.CharField(blank=True, help_text='f16, q8_0 … (--cache-type-k).', max_length=10, null=True, verbose_name='K cache type')),
                ('cache_type_v', models.CharField(blank=True, help_text='f16, q8_0 … (--cache-type-v).', max_length=10, null=True, verbose_name='V cache type')),
                ('flash_attn', models.CharField(blank=True, choices=[('on', 'on'), ('off', 'off'), ('auto', 'auto')], help_text='--flash-attn.', max_length=4, null=True, verbose_name='flash attention')),
                ('embeddings', models.BooleanField(blank=True, help_text='Serve embeddings (--embeddings).', null=True)),
                ('extra_options', models.TextField(blank=True, help_text='One `key = value` a line: any other llama-server option, without its dashes.')),
                ('pinned', models.BooleanField(default=False, help_text='Never evicted for another model.')),
                ('load_on_startup', models.BooleanField(default=False)),
                ('stop_timeout', models.FloatField(blank=True, help_text='Seconds from asking the child to exit to killing it.', null=True, validators=[django.core.validators.MinValueValidator(0)])),
                ('model_file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='presets', to='models_registry.modelfile')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Alias',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True, validators=[models_registry.validation.validate_name])),
                ('preset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='aliases', to='models_registry.preset')),
            ],
            options={
                'verbose_name_plural': 'aliases',
                'ordering': ['name'],
            },
        ),
    ]
