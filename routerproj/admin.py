"""Django's own accounts in the admin's look. What the gateway is about registers in its own app.

Nobody gives away more than they have: rights are given by superusers, and an account is in the
hands of those who may do all that it may, in its teams as well (who may change members could put
themselves there). Else a right to edit users would be one to everything.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from models_registry.admin.base import CorralAdmin
from proxy.models import Membership
from proxy.usage_pages.admin import UsageRecordAdmin as UsageRecordAdmin
from routerproj.usage_page import UsageAdmin as UsageAdmin

admin.site.unregister(User)
admin.site.unregister(Group)
for model in [*admin.site._registry]:
    # Secrets, their owners' alone (/account/second-factor/); and what the provider says of people
    if model._meta.app_label in ("otp_totp", "otp_static", "account", "socialaccount"):
        admin.site.unregister(model)


@admin.register(User)
class AccountAdmin(UserAdmin, CorralAdmin):  # type: ignore[type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        if _asker(request).is_superuser:
            return fields
        return [*fields, "is_superuser", "groups", "user_permissions"]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Also asked for the page that sets a password."""
        return super().has_change_permission(request, obj) and _in_hands_of(_asker(request), obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _in_hands_of(_asker(request), obj)


@admin.register(Group)
class AccountGroupAdmin(GroupAdmin, CorralAdmin):
    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return fields if _asker(request).is_superuser else [*fields, "permissions"]


def _asker(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the admin lets nobody else in
    return request.user


def _in_hands_of(asker: User, account: User | None) -> bool:
    """May `asker` edit it, set its password and delete it? Everybody may do so with their own."""
    if account is None or asker.is_superuser or account.pk == asker.pk:
        return True
    return (
        not account.is_superuser
        and _rights(account) <= _rights(asker)
        and (asker.has_perm("proxy.change_membership") or _teams(account) <= _teams(asker))
    )


def _teams(account: User) -> set[tuple[int, str]]:
    """As what it is in each; who leads one may do there what its members may."""
    own = list(Membership.objects.filter(user=account).values_list("team_id", "role"))
    return {*own, *((team, str(Membership.Role.MEMBER)) for team, _role in own)}


def _rights(account: User) -> set[int]:
    """Also those that an inactive account would have again."""
    its = Q(user=account) | Q(group__user=account)
    return set(Permission.objects.filter(its).values_list("pk", flat=True))
