"""Keys in the admin. A key's secret is shown once, as a message, when it is made."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.access import Asker
from models_registry.admin.base import NOTHING, badge, with_code
from models_registry.errors import ManagementRefused
from proxy.admin.fields import NamesField, scopes_field
from proxy.admin.limits import LimitedAdmin, LimitsInline
from proxy.admin.rotating import RotationForm
from proxy.keys import give_secret
from proxy.limits.sight import limits_of_key
from proxy.models import FOR_MEMBERS, ApiKey, Limit
from proxy.rotation import rotate_key
from proxy.scopes import OF_SUPERUSERS, Scope
from proxy.states import IN_USE, REPLACED, state_of

_COLOURS = {IN_USE: "good", REPLACED: "busy", "expired": "warn"}
ALLOWED = gettext_lazy(
    "Names of presets or aliases that it may use, of those that its team may, one on each line; "
    "with * at the end all that begin so. Empty: all."
)


class ByScope(admin.SimpleListFilter):
    title = gettext_lazy("scope")
    parameter_name = "scope"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(each), str(each)) for each in Scope]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        if self.value() not in [*Scope]:
            return queryset
        rows = queryset.annotate(scopes_text=Cast("scopes", TextField()))
        return rows.filter(scopes_text__contains=f'"{self.value()}"')


@admin.register(ApiKey)
class ApiKeyAdmin(LimitedAdmin):
    """Its history never held the digest, so a deleted key stays deleted; and going back changes
    what people edit only, so a revoked key stays revoked."""

    can_bring_back = False
    list_display = [
        "name", "team", "owner", "public_id", "scopes_shown", "state", "last_used_at", "expires_at",
    ]  # fmt: skip
    list_filter = ["team", ByScope, ("revoked_at", admin.EmptyFieldListFilter)]
    list_select_related = ["team", "user"]
    search_fields = ["name", "public_id", "user__username"]
    inlines = [LimitsInline]
    fields = ["team", "user", "name", "scopes", "allowed", "expires_at", "aliases"]
    autocomplete_fields = ["user"]
    actions = ["revoke"]
    change_form_template = "admin/proxy/apikey/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        name = self._url_name("rotate")
        rotate = path("<int:object_id>/rotate/", view(self.rotate_view), name=name)
        return [rotate, *super().get_urls()]

    def limits_shown(self, row: ApiKey) -> QuerySet[Limit]:
        return limits_of_key(row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        rows: QuerySet[ApiKey] = super().get_queryset(request)
        return rows.prefetch_related("successors", "user__memberships")

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        known = ["public_id", "in_session", "pair", "created_at", "last_used_at", "revoked_at"]
        return [*self.fields, *known] if obj is not None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj is None:
            return []
        known = ["user", "public_id", "in_session", "pair", "created_at", "last_used_at"]
        known += ["revoked_at"]
        # A key of scope `admin` may do what a superuser may: nobody gives away more than they have.
        kept = OF_SUPERUSERS.intersection(obj.scopes) and not _is_superuser(request)
        return [*known, "scopes"] if kept else known

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        match db_field.name:
            case "allowed":
                return NamesField(label=_("Allowed models"), help_text=with_code(ALLOWED))
            case "scopes":
                among = Scope if _is_superuser(request) else FOR_MEMBERS
                return scopes_field(among, help_text=with_code(db_field.help_text))
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description=gettext_lazy("owner"), ordering="user__username")
    def owner(self, key: ApiKey) -> str:
        return _("service") if key.user is None else key.user.get_username()

    @admin.display(description=gettext_lazy("scopes"))
    def scopes_shown(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    @admin.display(description=gettext_lazy("state"))
    def state(self, key: ApiKey) -> SafeString:
        state = state_of(key)
        return badge(_(state), _COLOURS.get(state, "bad"))

    @admin.display(description=gettext_lazy("rotation"))
    def pair(self, key: ApiKey) -> str:
        """The key that it replaces, and the one that replaces it."""
        told = [("replaces", key.replaces)] if key.replaces is not None else []
        told += [(_("is replaced by"), each) for each in key.successors.all()]
        url = f"admin:{self._url_name('change')}"
        links = ((words, reverse(url, args=[each.pk]), each) for words, each in told)
        return format_html_join("", '<div>{} <a href="{}">{}</a></div>', links) or NOTHING

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool
    ) -> None:
        text = "" if change else give_secret(obj)
        super().save_model(request, obj, form, change)
        if text:
            _show_once(request, text)

    def before_going_back(self, request: HttpRequest, live: Any, record: Any) -> None:
        if live is None or _is_superuser(request) or live.scopes == record.scopes:
            return
        if OF_SUPERUSERS.intersection([*live.scopes, *record.scopes]):
            raise ValidationError(
                _("Only superusers may change whether a key reaches beyond a team.")
            )

    @admin.action(description=gettext_lazy("Revoke selected API keys"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """One save each, so that the history tells who did it."""
        keys = list(queryset.filter(revoked_at=None))
        for key in keys:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])
        messages.success(request, _("Revoked: %(count)s.") % {"count": len(keys)})

    def rotate_view(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """GET: for how long the old key is to work. POST: make the new one, and show it once."""
        key = get_object_or_404(ApiKey, pk=object_id)
        if not self.has_change_permission(request, key):
            raise PermissionDenied
        form = RotationForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                new = rotate_key(key.public_id, _asker(request), **form.cleaned_data)
            except ManagementRefused as refused:
                form.add_error(None, refused.message)
            except ValidationError as error:
                form.add_error(None, error.messages)
            else:
                _show_once(request, new.text)
                return HttpResponseRedirect(
                    reverse(f"admin:{self._url_name('change')}", args=[new.pk])
                )
        back = reverse(f"admin:{self._url_name('change')}", args=[key.pk])
        context = {
            "title": _("Rotate %(key)s") % {"key": key},
            "original": key,
            "form": form,
            "back": back,
        }
        return self._page(request, "admin/proxy/apikey/rotate.html", context)


def _show_once(request: HttpRequest, text: str) -> None:
    messages.warning(
        request, format_html(_("The new key, shown only this once: <code>{}</code>"), text)
    )


def _asker(request: HttpRequest) -> Asker:
    return Asker(str(request.user), everything=_is_superuser(request))


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))
