"""What people fill in under /account/: a new key of their own or of a service, codes, passwords."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from proxy.admin.fields import NamesField, scopes_field
from proxy.models import ApiKey, Membership
from proxy.models.teams import MOST_CONTENT_DAYS
from proxy.scopes import USUAL

if TYPE_CHECKING:  # unfold has no stubs
    _Number = forms.NumberInput
    _Password = forms.PasswordInput
    _Select = forms.Select
    _Text = forms.TextInput
else:
    from unfold.widgets import UnfoldAdminIntegerFieldWidget as _Number
    from unfold.widgets import UnfoldAdminPasswordWidget as _Password
    from unfold.widgets import UnfoldAdminSelectWidget as _Select
    from unfold.widgets import UnfoldAdminTextInputWidget as _Text

MOST_DAYS = 3650
MINE, SERVICE = "mine", "service"


class ContentForm(forms.Form):
    """`days` is None where it is turned off."""

    stored = forms.BooleanField(label=gettext_lazy("Stored"), required=False)
    days = forms.IntegerField(
        label=gettext_lazy("Days"), min_value=1, max_value=MOST_CONTENT_DAYS, required=False
    )


class KeyForm(forms.Form):
    """`memberships` are those of who fills it in."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        widget=_Text,
        help_text=gettext_lazy("What will use it."),
    )
    team = forms.ChoiceField(label=gettext_lazy("Team"), widget=_Select)
    owner = forms.ChoiceField(
        label=gettext_lazy("Owner"),
        widget=_Select,
        choices=[(MINE, gettext_lazy("me")), (SERVICE, gettext_lazy("a service of the team"))],
        help_text=gettext_lazy("A service's key works on when you leave. Leads make them."),
    )
    expires_in = forms.IntegerField(
        label=gettext_lazy("Days until it expires"),
        min_value=1,
        max_value=MOST_DAYS,
        required=False,
        widget=_Number,
        help_text=gettext_lazy("Empty: never."),
    )
    allowed = NamesField(
        label=gettext_lazy("Allowed models"),
        help_text=gettext_lazy(
            "Names on lines, with * at the end all that begin so. Empty: all of the team's."
        ),
    )

    def __init__(self, memberships: list[Membership], data: Any = None) -> None:
        super().__init__(data)
        self._memberships = {str(each.team_id): each for each in memberships}
        team: Any = self.fields["team"]
        team.choices = [(id, each.team.name) for id, each in self._memberships.items()]
        offered = {scope for each in memberships for scope in each.team.member_scopes}
        self.fields["scopes"] = scopes_field(
            sorted(offered), initial=[each for each in USUAL if each in offered]
        )
        if all(each.role != Membership.Role.LEAD for each in memberships):
            del self.fields["owner"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        membership = self._memberships.get(cleaned.get("team", ""))
        if membership is None:
            return cleaned
        allowed = membership.team.member_scopes
        if beyond := [each for each in cleaned.get("scopes", ()) if each not in allowed]:
            self.add_error(
                "scopes",
                _("%(value)s is not for members of %(team)s.")
                % {"value": beyond[0], "team": membership.team},
            )
        if cleaned.get("owner") == SERVICE and membership.role != Membership.Role.LEAD:
            self.add_error(
                "owner",
                _("Only leads of %(team)s make keys of services.") % {"team": membership.team},
            )
        return cleaned

    def key(self, user: Any) -> ApiKey:
        """Unsaved; what a model's own checks say is told by `told`."""
        cleaned = self.cleaned_data
        days = cleaned["expires_in"]
        return ApiKey(
            team=self._memberships[cleaned["team"]].team,
            user=None if cleaned.get("owner") == SERVICE else user,
            name=cleaned["name"],
            scopes=cleaned["scopes"],
            allowed=cleaned["allowed"],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
        )

    def told(self, faults: dict[str, list[str]]) -> None:
        for field, messages in faults.items():
            self.add_error(field if field in self.fields else None, messages)


class CodeForm(forms.Form):
    """Of the second factor."""

    code = forms.CharField(
        label=gettext_lazy("Code of your app, or a recovery code"),
        widget=_Text(attrs={"autocomplete": "one-time-code", "autofocus": True}),
    )


class OwnPasswordForm(forms.Form):
    password = forms.CharField(
        label=gettext_lazy("Your password"),
        widget=_Password(attrs={"autocomplete": "current-password"}),
    )
