"""Downloads in the admin: the list with live progress, the form for a new one, the buttons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.access import Asker
from models_registry.admin.base import NOTHING, CorralAdmin, badge
from models_registry.downloads import asking, removing, shown
from models_registry.downloads.choosing import MMPROJ, SIDECARS
from models_registry.errors import ManagementRefused
from models_registry.models import Download

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _ModelForm = forms.ModelForm[Download]
    _Checkboxes = forms.CheckboxSelectMultiple
    _Password = forms.PasswordInput
else:
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as _Checkboxes
    from unfold.widgets import UnfoldAdminPasswordWidget as _Password

    _ModelForm = forms.ModelForm

State = Download.State

_COLOURS = {State.RUNNING: "busy", State.DONE: "good", State.FAILED: "bad", State.PAUSED: "warn"}


class DownloadForm(_ModelForm):
    """What to fetch. The row itself is made by asking.create, as for programs."""

    sidecars = forms.MultipleChoiceField(
        label=gettext_lazy("Sidecars"),
        choices=[(each, each) for each in SIDECARS],
        initial=[MMPROJ],
        required=False,
        widget=_Checkboxes,
        help_text=gettext_lazy(
            "Companions to fetch as well, where a repository has them: the projector "
            "(mmproj), a draft model."
        ),
    )
    token = forms.CharField(
        label=gettext_lazy("Token"),
        required=False,
        max_length=500,
        widget=_Password(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy(
            "For this download only, in place of HF_TOKEN. It is deleted when it is done."
        ),
    )

    class Meta:
        model = Download
        fields = ["kind", "target", "revision", "sidecars", "token", "load"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                asking.check(
                    cleaned["kind"],
                    cleaned["target"],
                    cleaned["revision"],
                    cleaned["sidecars"],
                    cleaned["token"],
                )
                asking.check_alone(cleaned["kind"], cleaned["target"], cleaned["revision"])
            except ManagementRefused as refused:
                raise ValidationError({refused.param or "target": refused.message}) from refused
        return cleaned


def _delete_with_files(row: Download, asker: Asker) -> None:
    removing.remove_fetched(row, asker, unload=True, cascade=False)
    asking.forget(row.pk)


_VERBS: dict[str, tuple[str | Promise, str | Promise, Callable[[Download, Asker], object]]] = {
    "pause": (
        gettext_lazy("Pause"),
        gettext_lazy("is paused"),
        lambda row, asker: asking.pause(row.pk),
    ),
    "resume": (
        gettext_lazy("Resume or retry"),
        gettext_lazy("goes on"),
        lambda row, asker: asking.resume(row.pk),
    ),
    "cancel": (
        gettext_lazy("Cancel"),
        gettext_lazy("is cancelled"),
        lambda row, asker: asking.cancel(row.pk),
    ),
    "remove": (
        gettext_lazy("Delete the model's files"),
        gettext_lazy("is deleted from the disk"),
        _delete_with_files,
    ),
}
"""Label, what to say when it was done, and what is done."""

_BUTTONS = {
    State.QUEUED: ("pause", "cancel"),
    State.RUNNING: ("pause", "cancel"),
    State.PAUSED: ("resume", "cancel"),
    State.FAILED: ("resume", "cancel"),
    State.CANCELLED: ("resume",),
    State.DONE: ("remove",),
}


@admin.register(Download)
class DownloadAdmin(CorralAdmin):
    form = DownloadForm
    list_display = ["target", "progress", "name", "asked_by", "created_at"]
    list_filter = ["state", "kind"]
    search_fields = ["target", "name", "asked_by"]
    list_after_template = "admin/models_registry/download/progress.html"
    change_form_template = "admin/models_registry/download/change_form.html"
    readonly_fields = [
        "progress", "file_list", "name", "commit", "attempts", "asked_by", "created_at",
        "started_at", "ended_at",
    ]  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: Download | None = None) -> Any:
        if obj is None:
            return ["kind", "target", "revision", "sidecars", "token", "load"]
        return ["kind", "target", "revision", "load", *self.readonly_fields]

    def has_change_permission(self, request: HttpRequest, obj: Download | None = None) -> bool:
        """A download is asked for and steered; what was asked for stays as it is."""
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Download | None = None) -> bool:
        running = obj is not None and obj.state == State.RUNNING
        return not running and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> Any:
        actions: Any = super().get_actions(request)
        for verb, (label, *_rest) in _VERBS.items():
            if self._may(request, verb):
                actions[verb] = (
                    partial(_act, verb),
                    verb,
                    _("%(verb)s (selected)") % {"verb": label},
                )
        return actions

    def _may(self, request: HttpRequest, verb: str) -> bool:
        if verb == "remove":
            deletes = super().has_delete_permission(request)
            return deletes and request.user.has_perm(removing.MAY_DELETE)
        return super().has_change_permission(request)

    # What is shown ----------------------------------------------------------------------

    @admin.display(description=gettext_lazy("progress"), ordering="state")
    def progress(self, row: Download) -> SafeString | str:
        if row.pk is None:
            return NOTHING
        return format_html('<div id="download-{}">{}</div>', row.pk, _told(row))

    @admin.display(description=gettext_lazy("files"))
    def file_list(self, row: Download) -> SafeString | str:
        lines = (
            (
                file["path"],
                (_("%(bytes_told)s of ") % {"bytes_told": shown.bytes_told(file["done"])})
                + (shown.bytes_told(file["size"]) if file["size"] is not None else "unknown"),
            )
            for file in row.files
        )
        return format_html_join("", "<div>{}: {}</div>", lines) or NOTHING

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {"show_history": False, **(extra_context or {})}
        answer = super().change_view(request, object_id, form_url, context)
        if isinstance(answer, TemplateResponse) and answer.context_data is not None:
            row = answer.context_data.get("original")
            if row is not None:
                answer.context_data["buttons"] = [
                    (
                        _VERBS[verb][0],
                        reverse(f"admin:models_registry_download_{verb}", args=[row.pk]),
                    )
                    for verb in _BUTTONS[State(row.state)]
                    if self._may(request, verb)
                ]
        return answer

    # What is done -----------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.ask_view)
        return [
            path("progress/", self.progress_view, name="models_registry_download_progress"),
            *(
                path(
                    f"<int:pk>/{verb}/",
                    view,
                    {"verb": verb},
                    name=f"models_registry_download_{verb}",
                )
                for verb in _VERBS
            ),
            *super().get_urls(),
        ]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().add_view(request, form_url, extra_context)
        except ManagementRefused as refused:  # somebody was faster after the form was checked
            messages.error(request, refused.message)
            return HttpResponseRedirect(reverse("admin:models_registry_download_changelist"))

    def save_model(self, request: HttpRequest, obj: Download, form: Any, change: bool) -> None:
        """Only ever a new one."""
        cleaned = form.cleaned_data
        made = asking.create(
            cleaned["kind"],
            cleaned["target"],
            revision=cleaned["revision"],
            sidecars=cleaned["sidecars"],
            token=cleaned["token"],
            load=cleaned["load"],
            asked_by=str(request.user),
        )
        obj.pk = made.pk
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Download) -> None:
        asking.forget(obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Download]) -> None:
        for row in queryset:
            asking.forget(row.pk)

    def ask_view(self, request: HttpRequest, pk: int, verb: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self._may(request, verb):
            raise PermissionDenied
        _act(verb, self, request, Download.objects.filter(pk=pk))
        left = Download.objects.filter(pk=pk).exists()
        page, args = ("change", [pk]) if left else ("changelist", [])
        return HttpResponseRedirect(reverse(f"admin:models_registry_download_{page}", args=args))

    def progress_view(self, request: HttpRequest) -> HttpResponse:
        """Asked for by the page itself, of the rows named in `ids`: an ended session gets no login
        page into its midst."""
        if not self.admin_site.has_permission(request) or not self.has_view_permission(request):
            return HttpResponse(status=204)
        keys = [key for key in request.GET.get("ids", "").split(",")[:500] if key.isdecimal()]
        rows = Download.objects.filter(pk__in=[int(key) for key in keys if len(key) <= 18])
        pieces = ((row.pk, _told(row)) for row in rows)
        piece = '<div id="download-{}" hx-swap-oob="true">{}</div>'
        content = format_html_join("", piece, pieces)
        answer = HttpResponse(content, status=200 if content else 204)
        add_never_cache_headers(answer)
        return answer


def _told(row: Download) -> SafeString:
    """The state, a bar while there is something to come, the figures, and what is in the way."""
    parts = [badge(row.get_state_display(), _COLOURS.get(State(row.state), ""))]
    if wish := shown.wish(row):
        parts.append(badge(_("will be %(wish)s") % {"wish": wish}, "warn"))
    if row.state in (State.RUNNING, State.PAUSED) and (done := shown.fraction(row)) is not None:
        bar = '<progress class="corral-progress" max="100" value="{}">{} %</progress>'
        parts.append(format_html(bar, f"{done * 100:.1f}", f"{done * 100:.0f}"))
    if row.bytes_done or row.state == State.RUNNING:
        parts.append(format_html('<span class="corral-subtle">{}</span>', shown.in_words(row)))
    if row.error:
        parts.append(format_html('<div class="corral-told">{}</div>', row.error))
    return format_html_join(" ", "{}", ((part,) for part in parts))


def _act(
    verb: str, model_admin: DownloadAdmin, request: HttpRequest, rows: QuerySet[Download]
) -> None:
    _label, done, do = _VERBS[verb]
    asker = Asker(str(request.user), permissions=frozenset(request.user.get_all_permissions()))
    for row in rows:
        try:
            do(row, asker)
        except ManagementRefused as refused:
            messages.error(request, refused.message)
        else:
            messages.success(request, f"{row.target} {done}.")
