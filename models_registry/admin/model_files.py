"""The page of model files: where they are, what their headers say, which presets run them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.admin.base import NOTHING, badge, file_problem, link, mebibytes, told
from models_registry.admin.history import HistoryAdmin
from models_registry.metadata_shown import metadata_of, metadata_shown, parameters_shown
from models_registry.model_paths import files_state
from models_registry.models import FileMetadata, ModelFile, Preset
from models_registry.tasks import rescan_sources

_LINES_SHOWN = 20
"""Messages travel in a cookie first; what is left out stands in the list itself."""


@admin.register(ModelFile)
class ModelFileAdmin(HistoryAdmin):
    list_display = [
        "path", "architecture", "parameters", "quantisation", "context", "megabytes", "licence",
        "source", "on_disk", "preset_links",
    ]  # fmt: skip
    change_list_template = "admin/models_registry/modelfile/change_list.html"
    list_filter = [
        "source",
        ("missing_since", admin.EmptyFieldListFilter),
        "metadata__architecture",
        "metadata__quantisation",
        "metadata__licence",
        ("metadata__error", admin.EmptyFieldListFilter),
    ]
    search_fields = [
        "path", "metadata__name", "metadata__architecture", "metadata__quantisation",
        "metadata__licence",
    ]  # fmt: skip
    readonly_fields = [
        "source", "megabytes", "on_disk", "missing_since", "preset_links", "header",
        "chat_template",
    ]  # fmt: skip
    fields = ["path", "mmproj", "draft", *readonly_fields]
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelFile]:
        rows: QuerySet[ModelFile] = super().get_queryset(request)
        # Counted by a subquery: grouping would carry every header through the sort
        own = Preset.objects.filter(model_file=OuterRef("pk")).order_by().values("model_file")
        count = Coalesce(Subquery(own.annotate(n=Count("pk")).values("n")), 0)
        headers = rows.select_related("metadata").defer("metadata__chat_template")
        return headers.prefetch_related("presets").annotate(preset_count=count)

    @admin.display(description=gettext_lazy("size"), ordering="size")
    def megabytes(self, model_file: ModelFile) -> str:
        return mebibytes(model_file.size)

    @admin.display(description=gettext_lazy("presets"), ordering="preset_count")
    def preset_links(self, model_file: ModelFile) -> SafeString | str:
        if model_file.pk is None:
            return NOTHING
        links = [(link("preset", preset.pk, preset.name),) for preset in model_file.presets.all()]
        return format_html_join(", ", "{}", links) if links else NOTHING

    @admin.display(description=gettext_lazy("on disk"))
    def on_disk(self, model_file: ModelFile) -> SafeString | str:
        if model_file.pk is None:
            return NOTHING
        problem = file_problem(model_file)
        if not problem:
            return _("yes")
        return format_html("{} {}", badge(_("missing"), "bad"), problem)

    # What its header says

    @admin.display(description=gettext_lazy("architecture"), ordering="metadata__architecture")
    def architecture(self, model_file: ModelFile) -> SafeString | str:
        row = metadata_of(model_file)
        if row is not None and row.error:
            return badge(_("cannot be read"), "bad")
        return (row and row.architecture) or NOTHING

    @admin.display(description=gettext_lazy("parameters"), ordering="metadata__parameters")
    def parameters(self, model_file: ModelFile) -> str:
        row = metadata_of(model_file)
        return (row and parameters_shown(row.parameters)) or NOTHING

    @admin.display(description=gettext_lazy("quantisation"), ordering="metadata__quantisation")
    def quantisation(self, model_file: ModelFile) -> str:
        row = metadata_of(model_file)
        return (row and row.quantisation) or NOTHING

    @admin.display(description=gettext_lazy("context"), ordering="metadata__context_length")
    def context(self, model_file: ModelFile) -> str:
        row = metadata_of(model_file)
        return f"{row.context_length:,}" if row and row.context_length else NOTHING

    @admin.display(description=gettext_lazy("licence"), ordering="metadata__licence")
    def licence(self, model_file: ModelFile) -> str:
        row = metadata_of(model_file)
        return (row and row.licence) or NOTHING

    @admin.display(description=gettext_lazy("header"))
    def header(self, model_file: ModelFile) -> SafeString | str:
        shown = metadata_shown(model_file)
        return format_html_join("", "<div>{}: {}</div>", shown) or _("it has not been read yet")

    @admin.display(description=gettext_lazy("chat template"))
    def chat_template(self, model_file: ModelFile) -> SafeString | str:
        row: FileMetadata | None = metadata_of(model_file)
        return told(row.chat_template) if row and row.chat_template else NOTHING

    # What is done

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
        for words in report.faults:
            messages.error(request, words)
        summary, *details = (line for line in report.lines() if line not in report.faults)
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
