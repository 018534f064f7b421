"""Import and export in the admin: a file, what it would change, and the change."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from models_registry.access import Asker
from models_registry.admin.base import CorralAdmin
from models_registry.errors import EngineMissing, ImportRefused, ManagementRefused
from models_registry.importing import FORMS, LONGEST_TEXT, import_text
from models_registry.imports.plan import ImportReport
from models_registry.ini.exporting import export_ini
from models_registry.ini.text import IniError, decoded
from models_registry.models import Preset

_LINES = {"rows": 14, "spellcheck": "false", "class": "font-mono"}


class ImportForm(forms.Form):
    """What is uploaded becomes the text, where it can be corrected."""

    form = forms.ChoiceField(
        choices=list(FORMS.items()), label=gettext_lazy("Form"), widget=UnfoldAdminSelectWidget
    )
    file = forms.FileField(
        label=gettext_lazy("File"), required=False, widget=UnfoldAdminFileFieldWidget
    )
    text = forms.CharField(
        label=gettext_lazy("Text"),
        required=False,
        strip=False,
        max_length=LONGEST_TEXT,
        help_text=gettext_lazy(
            "Or paste it here. Relative paths are not known here: write absolute ones."
        ),
        widget=UnfoldAdminTextareaWidget(_LINES),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("Of a Modelfile: what its preset is to be called."),
        widget=UnfoldAdminTextInputWidget,
    )
    ignore_unknown = forms.BooleanField(
        label=gettext_lazy("Ignore unknown"),
        required=False,
        help_text=gettext_lazy(
            "Of an INI: keys that cannot be taken are told, and the rest is taken."
        ),
        widget=UnfoldBooleanSwitchWidget,
    )
    replace = forms.BooleanField(
        label=gettext_lazy("Replace"),
        required=False,
        help_text=gettext_lazy("Of an INI: also change what a preset already says otherwise."),
        widget=UnfoldBooleanSwitchWidget,
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        uploaded = cleaned.get("file")
        if uploaded is not None:
            cleaned["text"] = self._uploaded_text(uploaded)
            sent: Any = self.data
            self.data = sent.copy()
            self.data["text"] = cleaned["text"]  # type: ignore[index]
        if not cleaned.get("text", "").strip() and not self.errors:
            raise ValidationError(_("Choose a file, or paste its text."))
        return cleaned

    def _uploaded_text(self, uploaded: Any) -> str:
        if uploaded.size > LONGEST_TEXT:
            raise ValidationError(
                {
                    "file": _(
                        "At most %(LONGEST_TEXT)s bytes are taken here: import it by manage.py."
                    )
                    % {"LONGEST_TEXT": LONGEST_TEXT}
                }
            )
        try:
            return decoded(uploaded.read())
        except IniError as error:
            raise ValidationError({"file": str(error)}) from error

    def imported(self, asker: Asker, *, dry_run: bool) -> ImportReport:
        cleaned = self.cleaned_data
        return import_text(
            cleaned["form"],
            cleaned["text"],
            asker,
            name=cleaned["name"],
            dry_run=dry_run,
            ignore_unknown=cleaned["ignore_unknown"],
            replace=cleaned["replace"],
        )


def urls(model_admin: CorralAdmin) -> list[URLPattern]:
    view = model_admin.admin_site.admin_view
    return [
        path(
            "import/",
            view(partial(_import_view, model_admin)),
            name="models_registry_preset_import",
        ),
        path(
            "export/",
            view(partial(_export_view, model_admin)),
            name="models_registry_preset_export",
        ),
    ]


def _import_view(model_admin: CorralAdmin, request: HttpRequest) -> HttpResponse:
    """GET: the form. POST: what the text would change; with `apply` the change."""
    if not model_admin.has_add_permission(request):
        raise PermissionDenied
    form = ImportForm(request.POST or None, request.FILES or None)
    report, faults = None, []
    applying = "apply" in request.POST
    if form.is_valid():
        try:
            report = form.imported(_asker(request), dry_run=not applying)
        except ImportRefused as refused:
            faults = str(refused).splitlines()
        except ManagementRefused as refused:
            raise PermissionDenied(str(refused)) from refused
    if applying and report is not None:
        _tell(request, report)
        return HttpResponseRedirect(reverse("admin:models_registry_preset_changelist"))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": _("Import presets"),
        "opts": model_admin.opts,
        "form": form,
        "report": report,
        "faults": faults,
    }
    return TemplateResponse(request, "admin/models_registry/preset/import.html", context)


_MOST_TOLD = 30


def _tell(request: HttpRequest, report: ImportReport) -> None:
    lines = report.lines()
    level = messages.WARNING if report.skipped else messages.SUCCESS
    messages.add_message(
        request, level, _("Imported: %(lines)s lines follow.") % {"lines": len(lines)}
    )
    for line in lines[:_MOST_TOLD]:
        messages.info(request, line)
    if (more := len(lines) - _MOST_TOLD) > 0:
        messages.info(
            request, _("And %(more)s more, which the preview had shown.") % {"more": more}
        )


def _asker(request: HttpRequest) -> Asker:
    user: Any = request.user
    permissions = frozenset(user.get_all_permissions())
    return Asker(f"{user}, by an import", everything=user.is_superuser, permissions=permissions)


def _export_view(model_admin: CorralAdmin, request: HttpRequest) -> HttpResponse:
    """All presets; the list's action takes those that are chosen."""
    if not model_admin.has_view_or_change_permission(request):
        raise PermissionDenied
    return _exported(request, None)


def export_selected(
    model_admin: CorralAdmin, request: HttpRequest, presets: QuerySet[Preset]
) -> HttpResponse:
    return _exported(request, list(presets.values_list("name", flat=True)))


def _exported(request: HttpRequest, names: list[str] | None) -> HttpResponse:
    try:
        text = export_ini(names)
    except EngineMissing as error:
        messages.error(request, _("Options cannot be written now: %(error)s") % {"error": error})
        return HttpResponseRedirect(reverse("admin:models_registry_preset_changelist"))
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="presets.ini"'
    return answer
