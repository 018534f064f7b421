"""What the registry's admin pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import JSONField, Model, TextField
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextareaWidget

from models_registry.admin.object_field import ObjectField
from models_registry.audit.watched import type_of
from models_registry.model_paths import files_state
from models_registry.models import ModelFile

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _Admin = admin.ModelAdmin[Any]
    _ChangeList = ChangeList
else:
    from unfold.admin import ModelAdmin as _Admin
    from unfold.views import ChangeList as _ChangeList

NOTHING = "-"


_LINES = UnfoldAdminTextareaWidget({"rows": 4, "spellcheck": "false", "class": "font-mono"})

OBJECTS: Any = {
    JSONField: {"form_class": ObjectField, "widget": _LINES},
    TextField: {"widget": _LINES},
}
"""`formfield_overrides`: what people edit as JSON is an object; long texts are lines of it."""


class CorralAdmin(_Admin):
    """What all pages share."""

    formfield_overrides = OBJECTS

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and "`" in field.help_text:
            field.help_text = with_code(str(field.help_text))
        return field

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """With a link to what the audit trail has of the row."""
        row = context.get("original")
        if row is not None and request.user.has_perm("models_registry.view_auditrecord"):
            context["audit_url"] = audit_url(row)
        return super().render_change_form(request, context, *args, **kwargs)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django hands a number of any size in a filter or an action on to the database."""
        try:
            return super().changelist_view(request, extra_context)
        except OverflowError:
            raise Http404("no row has such a number") from None


class RecordChangeList(_ChangeList):
    """Without a filter what was found is all there is: no offer to show all of it."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if not self.query and not self.get_filters_params():
            self.full_result_count = self.result_count


class ReadOnlyAdmin(CorralAdmin):
    """What the machine knows is not edited."""

    show_full_result_count = False  # the record grows; counting it all would slow every page
    list_per_page = 50

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RecordChangeList

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {"show_history": False, **(extra_context or {})}  # nobody ever changed it
        return super().change_view(request, object_id, form_url, context)

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


def audit_url(row: Model) -> str:
    """Empty for what the audit trail does not watch."""
    found = type_of(type(row))
    if not found:
        return ""
    query = urlencode({"object_type": found, "object_id": row.pk})
    return f"{reverse('admin:models_registry_auditrecord_changelist')}?{query}"


def may_do_everything(request: HttpRequest) -> bool:
    """See models_registry.restricted."""
    return bool(getattr(request.user, "is_superuser", False))


def badge(text: str, colour: str = "") -> SafeString:
    """`colour`: good, busy, warn, bad, or nothing in particular."""
    return format_html('<span class="corral-badge {}">{}</span>', colour, text)


def with_code(text: str | Promise) -> SafeString:
    """What stands between backticks, as code."""
    words = enumerate(str(text).split("`"))
    return format_html_join(
        "",
        "{}",
        ((format_html("<code>{}</code>", word) if at % 2 else word,) for at, word in words),
    )


def told(text: str) -> SafeString:
    """What a program said, line breaks kept."""
    return format_html('<div class="corral-told">{}</div>', text)


def mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def link(model: str, pk: int, text: str, title: str = "") -> SafeString:
    url = reverse(f"admin:models_registry_{model}_change", args=[pk])
    titled = format_html(' title="{}"', title) if title else ""
    return format_html('<a href="{}"{}>{}</a>', url, titled, text)


def model_url(pk: int) -> str:
    """Of a model's page, which joins what all apps know of a preset."""
    return reverse("model:page", args=[pk])


def file_problem(model_file: ModelFile | None) -> str:
    """As the disk is now, not as the last rescan saw it. Empty when all is there, or nothing is
    needed."""
    if model_file is None:
        return ""
    return files_state(model_file.path, model_file.mmproj, model_file.draft).problem
