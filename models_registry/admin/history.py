"""History pages for the admin: what changed, by whom, and a button that goes back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _

from models_registry import history
from models_registry.admin.base import CorralAdmin

VERSIONS_PER_PAGE = 50


class HistoryAdmin(CorralAdmin):
    """A model with `history`. Going back changes what people edit and nothing else; it is checked
    and saved as an edit is."""

    can_bring_back = True
    """False where a record does not keep all of a row."""

    change_list_template = "admin/corral/change_list.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("deleted/", view(self.deleted_view), name=self._url_name("deleted")),
            path(
                "<int:object_id>/history/<int:record_id>/",
                view(self.version_view),
                name=self._url_name("version"),
            ),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        shown = self.can_bring_back and self.has_add_permission(request)
        url = reverse(f"admin:{self._url_name('deleted')}") if shown else ""
        return super().changelist_view(request, {"deleted_url": url, **(extra_context or {})})

    # Pages ------------------------------------------------------------------------------

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            pk = int(object_id)
        except ValueError:
            raise Http404 from None
        records = history.records_of(self.model, pk)
        live = self.model._default_manager.filter(pk=pk).first()
        self._check_may_look(request, live)
        page = Paginator(records, VERSIONS_PER_PAGE).get_page(request.GET.get("p"))
        if not page.object_list:
            raise Http404
        shown = list(page.object_list)
        name = str(live if live is not None else shown[0].instance)
        before = records.filter(history_id__lt=shown[-1].history_id).first()
        context = {
            "title": _("History of %(name)s") % {"name": name},
            "original": live,  # the path above the page names it
            "page": page,
            "versions": history.versions(shown, before),
            "live": live,
            "pk": pk,
            "name": name,
            "version_url": f"admin:{self._url_name('version')}",
            **(extra_context or {}),
        }
        return self._page(request, "admin/corral/history.html", context)

    def version_view(self, request: HttpRequest, object_id: int, record_id: int) -> HttpResponse:
        """GET: how the row was then, beside how it is. POST: go back to it."""
        key = {history.key_of(self.model): object_id}
        record = get_object_or_404(history.records_of(self.model, object_id), pk=record_id)
        live = self.model._default_manager.filter(**key).first()
        self._check_may_look(request, live)
        problems: list[str] = []
        if request.method == "POST":
            if not self._may_go_back(request, live):
                raise PermissionDenied
            try:
                with transaction.atomic():
                    row = self._go_back(request, record)
            except ValidationError as error:
                problems = _with_fields(error)
            else:
                done = _("is back") if live is None else _("is as it was then")
                messages.success(request, f"{row} {done} ({history.moment(record)}).")
                return HttpResponseRedirect(
                    reverse(f"admin:{self._url_name('change')}", args=[object_id])
                )
        context = {
            "title": f"{record.instance}, {history.moment(record)}",
            "original": live,
            "record": record,
            "live": live,
            "name": str(record.instance),
            "moment": history.moment(record),
            "problems": problems,
            "values": history.values_of(record),
            "differences": history.differences(live, record) if live is not None else (),
            "may_go_back": self._may_go_back(request, live),
            "history_url": reverse(f"admin:{self._url_name('history')}", args=[object_id]),
        }
        return self._page(request, "admin/corral/version.html", context)

    def deleted_view(self, request: HttpRequest) -> HttpResponse:
        self._check_may_look(request, None)
        context = {
            "title": _("Deleted %(verbose_name_plural)s")
            % {"verbose_name_plural": self.model._meta.verbose_name_plural},
            "records": history.deleted(self.model) if self.can_bring_back else [],
            "version_url": f"admin:{self._url_name('version')}",
        }
        return self._page(request, "admin/corral/deleted.html", context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """A save that changes nothing makes no version."""
        own = {field.name for field in obj._meta.concrete_fields}
        if not change or own & {*form.changed_data}:
            super().save_model(request, obj, form, change)

    # Going back -------------------------------------------------------------------------

    def _go_back(self, request: HttpRequest, record: history.Record) -> Any:
        live = self.model._default_manager.select_for_update().filter(
            **{history.key_of(self.model): getattr(record, history.key_of(self.model))}
        )
        present = live.first()
        was = str(present) if present is not None else None
        self.before_going_back(request, present, record)
        row = history.row_as_it_was(record, present)
        history.check_owner(row)
        row.full_clean()
        row._change_reason = f"back to {history.moment(record)}"
        self.save_gone_back(request, row, was)
        history.put_members(row, record)
        log = self.log_addition if present is None else self.log_change
        log(request, row, row._change_reason)
        return row

    def before_going_back(self, request: HttpRequest, live: Any, record: history.Record) -> None:
        """Raises ValidationError when this person may not; makes room for the old values."""

    def save_gone_back(self, request: HttpRequest, row: Any, was: str | None) -> None:
        """`was` is what the row called itself until now; None: it was gone."""
        row.save(force_insert=was is None)

    def _may_go_back(self, request: HttpRequest, live: Model | None) -> bool:
        if live is None:
            return self.can_bring_back and self.has_add_permission(request)
        return self.has_change_permission(request, live)

    def _check_may_look(self, request: HttpRequest, live: Model | None) -> None:
        if not self.has_view_or_change_permission(request, live):
            raise PermissionDenied

    # ------------------------------------------------------------------------------------

    def _url_name(self, page: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "subtitle": None}
        return TemplateResponse(request, template, shared | context)


def _with_fields(error: ValidationError) -> list[str]:
    if not hasattr(error, "error_dict"):
        return error.messages
    return [
        text if field == "__all__" else f"{field}: {text}"
        for field, texts in error.message_dict.items()
        for text in texts
    ]
