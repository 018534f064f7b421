"""What people edit: model files and aliases here, presets in admin_presets.py."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from models_registry import measurements
from models_registry.admin_base import (
    NOTHING,
    ReadOnlyAdmin,
    badge,
    file_problem,
    link,
    mebibytes,
    told,
)
from models_registry.admin_history import HistoryAdmin
from models_registry.admin_presets import PresetAdmin as PresetAdmin
from models_registry.admin_sharing import GlobalPresetAdmin as GlobalPresetAdmin
from models_registry.admin_sharing import GroupAdmin as GroupAdmin
from models_registry.admin_sharing import ProfileAdmin as ProfileAdmin
from models_registry.model_paths import files_state
from models_registry.models import Alias, Measurement, ModelFile
from models_registry.tasks import rescan_sources


@admin.register(ModelFile)
class ModelFileAdmin(HistoryAdmin):
    list_display = ["path", "source", "megabytes", "on_disk", "preset_links"]
    change_list_template = "admin/models_registry/modelfile/change_list.html"
    list_filter = ["source", ("missing_since", admin.EmptyFieldListFilter)]
    search_fields = ["path"]
    readonly_fields = ["source", "megabytes", "on_disk", "missing_since", "preset_links"]
    fields = ["path", "mmproj", *readonly_fields]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelFile]:
        rows: QuerySet[ModelFile] = super().get_queryset(request)
        return rows.prefetch_related("presets").annotate(Count("presets"))

    @admin.display(description="size", ordering="size")
    def megabytes(self, model_file: ModelFile) -> str:
        return mebibytes(model_file.size)

    @admin.display(description="presets", ordering="presets__count")
    def preset_links(self, model_file: ModelFile) -> SafeString | str:
        if model_file.pk is None:
            return NOTHING
        links = [(link("preset", preset.pk, preset.name),) for preset in model_file.presets.all()]
        return format_html_join(", ", "{}", links) if links else NOTHING

    @admin.display(description="on disk")
    def on_disk(self, model_file: ModelFile) -> SafeString | str:
        if model_file.pk is None:
            return NOTHING
        problem = file_problem(model_file)
        if not problem:
            return "yes"
        return format_html("{} {}", badge("missing", "bad"), problem)

    def save_model(self, request: HttpRequest, obj: ModelFile, form: Any, change: bool) -> None:
        if change and not form.changed_data:
            return
        _see(obj)
        super().save_model(request, obj, form, change)

    def save_gone_back(self, request: HttpRequest, row: Any, was: str | None) -> None:
        _see(row)
        super().save_gone_back(request, row, was)

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
        report = rescan_sources()
        for words in report.vanished:
            messages.error(request, words)
        summary, *details = (line for line in report.lines() if line not in report.vanished)
        messages.success(request, summary)
        for line in details[:_LINES_SHOWN]:
            messages.info(request, line)
        return HttpResponseRedirect(reverse("admin:models_registry_modelfile_changelist"))


def _see(model_file: ModelFile) -> None:
    """As the disk is now. A file that is gone for now keeps its size and stays marked."""
    state = files_state(model_file.path)
    if not state.problem:
        model_file.size = state.size
        model_file.missing_since = None


_LINES_SHOWN = 20
"""Messages travel in a cookie first; what is left out stands in the list itself."""


@admin.register(Alias)
class AliasAdmin(HistoryAdmin):
    list_display = ["name", "preset"]
    list_select_related = ["preset"]
    search_fields = ["name", "preset__name"]
    autocomplete_fields = ["preset"]


@admin.register(Measurement)
class MeasurementAdmin(ReadOnlyAdmin):
    """Ordered with the Measure button of a preset."""

    list_display = ["preset", "state", "total", "engine", "measured_at"]
    list_filter = ["state", "way", "engine"]
    search_fields = ["preset", "fingerprint", "error"]
    fields = [
        "preset", "state", "total", "parts", "error_told", "engine", "way", "seconds", "attempts",
        "created_at", "ordered_at", "started_at", "measured_at", "used_at", "fingerprint",
    ]  # fmt: skip

    @admin.display(description="memory")
    def total(self, row: Measurement) -> SafeString | str:
        totals = measurements.total_bytes(row).items()
        pairs = ((device, mebibytes(size)) for device, size in totals)
        return format_html_join(", ", "{} {}", pairs) or NOTHING

    @admin.display(description="parts")
    def parts(self, row: Measurement) -> SafeString | str:
        rows = (
            (each["device"], *(mebibytes(each[part]) for part in ("model", "context", "compute")))
            for each in row.devices
        )
        line = "<div>{}: model {}, context {}, compute {}</div>"
        return format_html_join("", line, rows) or NOTHING

    @admin.display(description="error")
    def error_told(self, row: Measurement) -> SafeString | str:
        return told(row.error) if row.error else NOTHING
