"""What people edit: model files, presets and their aliases. Live states are read-only here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from models_registry import live, ports
from models_registry.catalogue import engine_catalogue
from models_registry.command_line import EffectiveOption, render
from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ModelsFolderMissing, OptionError
from models_registry.launch import effective_options
from models_registry.model_paths import files_state
from models_registry.models import Alias, ModelFile, Preset
from models_registry.tasks import rescan_models_dir

if TYPE_CHECKING:  # Django's stubs are generic where Django's classes are not
    PresetModelAdmin = admin.ModelAdmin[Preset]
    ModelFileModelAdmin = admin.ModelAdmin[ModelFile]
    AliasModelAdmin = admin.ModelAdmin[Alias]
    AliasTabularInline = admin.TabularInline[Alias, Preset]
    AliasBaseFormSet = BaseInlineFormSet[Alias, Preset, Any]
else:
    PresetModelAdmin = ModelFileModelAdmin = AliasModelAdmin = admin.ModelAdmin
    AliasTabularInline = admin.TabularInline
    AliasBaseFormSet = BaseInlineFormSet

_NOTHING = "-"


def _link(model: str, pk: int, text: str) -> SafeString:
    url = reverse(f"admin:models_registry_{model}_change", args=[pk])
    return format_html('<a href="{}">{}</a>', url, text)


class PresetChangeList(ChangeList):
    """Asks the scheduler once for the whole page, and keeps the answer beside each row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if request.method != "GET":
            return
        statuses = live.live_statuses()
        if statuses.away:
            messages.warning(request, statuses.away)
        self.result_list = list(self.result_list)
        for preset in self.result_list:
            preset.live_statuses = statuses


class AliasFormSet(AliasBaseFormSet):
    """Sees the preset's name as it is being changed in the same form; each alias's own check sees
    only what is stored."""

    def clean(self) -> None:
        super().clean()
        for form in self.forms:
            cleaned = getattr(form, "cleaned_data", {})
            if cleaned.get("name") == self.instance.name and not cleaned.get("DELETE"):
                raise ValidationError("An alias cannot have its preset's own name.")


class AliasInline(AliasTabularInline):
    model = Alias
    formset = AliasFormSet
    extra = 0


@admin.register(Preset)
class PresetAdmin(PresetModelAdmin):
    list_display = ["name", "state", "file", "ctx_size", "parallel", "pinned", "alias_names"]
    list_filter = ["source", "pinned", "load_on_startup"]
    search_fields = ["name", "aliases__name", "model_file__path"]
    list_select_related = ["model_file"]
    autocomplete_fields = ["model_file"]
    inlines = [AliasInline]
    actions = ["load", "unload"]
    readonly_fields = ["state_and_failure", "file", "source", "options_table", "command_line"]
    save_on_top = True
    fieldsets = [
        (None, {"fields": ["name", "model_file"]}),
        ("Now", {"fields": ["state_and_failure"]}),
        ("Context and slots", {"fields": ["ctx_size", "parallel"]}),
        ("Hardware", {"fields": ["n_gpu_layers", "threads", "flash_attn"]}),
        ("Batches", {"fields": ["batch_size", "ubatch_size"], "classes": ["collapse"]}),
        ("KV cache", {"fields": ["cache_type_k", "cache_type_v"], "classes": ["collapse"]}),
        ("Use", {"fields": ["embeddings", "pinned", "load_on_startup", "stop_timeout"]}),
        ("Other options", {"fields": ["extra_options"]}),
        ("What is started", {"fields": ["file", "source", "options_table", "command_line"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Preset]:
        return super().get_queryset(request).prefetch_related("aliases")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return PresetChangeList

    # What a page shows ------------------------------------------------------------------

    @admin.display(description="state")
    def state(self, preset: Preset) -> str:
        statuses = getattr(preset, "live_statuses", None) or live.live_statuses()
        return live.state_text(statuses, preset.name)

    @admin.display(description="state")
    def state_and_failure(self, preset: Preset) -> SafeString | str:
        if preset.pk is None:
            return _NOTHING
        return live.page_text(live.live_statuses(), preset.name)

    @admin.display(description="model file", ordering="model_file__path")
    def file(self, preset: Preset) -> SafeString | str:
        if preset.pk is None:
            return _NOTHING
        return _link("modelfile", preset.model_file.pk, preset.model_file.path)

    @admin.display(description="aliases")
    def alias_names(self, preset: Preset) -> str:
        return ", ".join(alias.name for alias in preset.aliases.all()) or _NOTHING

    @admin.display(description="options, and where each comes from")
    def options_table(self, preset: Preset) -> SafeString | str:
        options = _options_or_problem(preset)
        if isinstance(options, str):
            return options
        rows = ((option.key, option.value, option.layer.label) for option in options)
        body = format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
        return format_html("<table>{}</table>", body)

    @admin.display(description="command line")
    def command_line(self, preset: Preset) -> SafeString | str:
        options = _options_or_problem(preset)
        if isinstance(options, str):
            return options
        program = llama_server()
        argv = [str(program), *render(options, engine_catalogue(program))]
        return format_html('<code style="overflow-wrap: anywhere">{}</code>', shlex.join(argv))

    # What a person can do ---------------------------------------------------------------

    @admin.action(description="Load the selected presets", permissions=["change"])
    def load(self, request: HttpRequest, presets: QuerySet[Preset]) -> None:
        for preset in presets:
            _ask(request, preset, load=True)

    @admin.action(description="Unload the selected presets", permissions=["change"])
    def unload(self, request: HttpRequest, presets: QuerySet[Preset]) -> None:
        for preset in presets:
            _ask(request, preset, load=False)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path(
                "<int:pk>/load/",
                view(self.load_view),
                name="models_registry_preset_load",
            ),
            path(
                "<int:pk>/unload/",
                view(self.unload_view),
                name="models_registry_preset_unload",
            ),
            *super().get_urls(),
        ]

    def load_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        return self._ask_for_one(request, pk, load=True)

    def unload_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        return self._ask_for_one(request, pk, load=False)

    def _ask_for_one(self, request: HttpRequest, pk: int, *, load: bool) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        preset = get_object_or_404(Preset, pk=pk)
        if not self.has_change_permission(request, preset):
            raise PermissionDenied
        _ask(request, preset, load=load)
        return HttpResponseRedirect(reverse("admin:models_registry_preset_change", args=[pk]))

    def save_model(self, request: HttpRequest, obj: Preset, form: Any, change: bool) -> None:
        """A renamed preset keeps its old name as an alias: clients go on with it."""
        old_name = form.initial.get("name") if change else None
        super().save_model(request, obj, form, change)
        if old_name and old_name != obj.name:
            Alias.objects.get_or_create(name=old_name, defaults={"preset": obj})
            messages.info(request, f"{old_name} stays as an alias of {obj.name}.")


def _options_or_problem(preset: Preset) -> tuple[EffectiveOption, ...] | str:
    if preset.pk is None:
        return _NOTHING
    try:
        return effective_options(preset, engine_catalogue(llama_server()))
    except (OptionError, EngineMissing) as error:
        return f"This preset cannot be started: {error}"


def _ask(request: HttpRequest, preset: Preset, *, load: bool) -> None:
    """Pass it to the scheduler; its answer becomes the message."""
    try:
        scheduler = ports.scheduler()
        if load:
            scheduler.load(preset.name)
        else:
            scheduler.unload(preset.name)
    except ports.SchedulerUnavailable as error:
        messages.error(request, f"{preset.name}: the scheduler does not answer: {error}")
    except ports.SchedulerRefused as error:
        messages.error(request, f"{preset.name}: {error}")
    else:
        asked = "is being loaded" if load else "is being unloaded"
        messages.success(request, f"{preset.name} {asked}.")


@admin.register(ModelFile)
class ModelFileAdmin(ModelFileModelAdmin):
    list_display = ["path", "source", "megabytes", "missing_since", "preset_links"]
    list_filter = ["source", ("missing_since", admin.EmptyFieldListFilter)]
    search_fields = ["path"]
    readonly_fields = ["source", "megabytes", "missing_since", "preset_links"]
    fields = ["path", "mmproj", *readonly_fields]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelFile]:
        return super().get_queryset(request).prefetch_related("presets").annotate(Count("presets"))

    @admin.display(description="size", ordering="size")
    def megabytes(self, model_file: ModelFile) -> str:
        return f"{model_file.size / 2**20:,.0f} MiB"

    @admin.display(description="presets", ordering="presets__count")
    def preset_links(self, model_file: ModelFile) -> SafeString | str:
        if model_file.pk is None:
            return _NOTHING
        links = [(_link("preset", preset.pk, preset.name),) for preset in model_file.presets.all()]
        return format_html_join(", ", "{}", links) if links else _NOTHING

    def save_model(self, request: HttpRequest, obj: ModelFile, form: Any, change: bool) -> None:
        obj.size = files_state(obj.path).size
        obj.missing_since = None  # the form has just seen the file
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.rescan_view)
        return [path("rescan/", view, name="models_registry_modelfile_rescan"), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {"may_rescan": self._may_rescan(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    def _may_rescan(self, request: HttpRequest) -> bool:
        return self.has_add_permission(request) and self.has_change_permission(request)

    def rescan_view(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self._may_rescan(request):
            raise PermissionDenied
        try:
            summary, *details = rescan_models_dir().lines()
        except ModelsFolderMissing as error:
            messages.error(request, str(error))
        else:
            messages.success(request, summary)
            for line in details[:_LINES_SHOWN]:
                messages.info(request, line)
        return HttpResponseRedirect(reverse("admin:models_registry_modelfile_changelist"))


_LINES_SHOWN = 20
"""Messages travel in a cookie first; what is left out stands in the list itself."""


@admin.register(Alias)
class AliasAdmin(AliasModelAdmin):
    list_display = ["name", "preset"]
    list_select_related = ["preset"]
    search_fields = ["name", "preset__name"]
    autocomplete_fields = ["preset"]
