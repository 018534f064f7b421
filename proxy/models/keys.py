"""The keys of teams."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _
from simple_history.models import HistoricalRecords

from proxy.allowed import check_allowed
from proxy.models.members import Membership
from proxy.models.teams import Team
from proxy.own_aliases import check_own_aliases, check_where_they_lead
from proxy.scopes import OF_SUPERUSERS, effective, in_order, scopes_problem, usual


def check_scopes(scopes: object) -> None:
    """Raises ValidationError."""
    if problem := scopes_problem(scopes):
        raise ValidationError(problem)


def usable() -> Q:
    """Keys that are neither revoked, nor of somebody who is inactive or has left the team. An
    expiry is for whoever uses one to look at: it comes by itself."""
    there = Membership.objects.filter(user=OuterRef("user"), team=OuterRef("team"))
    return Q(Q(user=None) | Q(Exists(there), user__is_active=True), revoked_at=None)


class ApiKey(models.Model):
    """A key of a team: a person's in it, or a service's. Its secret is shown once, when it is made;
    only the digest is kept.

    A key that is rotated gets a successor, which `replaces` it; all keys of one `line` are the same
    key to limits and conversations."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="keys")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="api_keys",
        verbose_name="owner",
        help_text="The person whose key it is, for good; empty: a service's.",
    )
    name = models.CharField(max_length=100, help_text="Who or what uses it.")
    scopes = models.JSONField(
        default=usual,
        validators=[check_scopes],
        help_text="`infer`: have models answer. `read`: see what is loaded. `load`: load and "
        "unload. `admin` opens the management API, and all that a superuser may do there.",
    )
    public_id = models.CharField(max_length=8, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    line = models.CharField(max_length=8, default="", db_index=True, editable=False)
    replaces = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="successors",
        help_text="The key that it was made for, to take its place.",
    )
    created_at = models.DateTimeField(auto_now_add=True, editable=False)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Refused from then on; empty: never."
    )
    aliases = models.JSONField(
        default=dict,
        blank=True,
        validators=[check_own_aliases],
        help_text="Names that count for this key only, before its team's, and the model of each: "
        '{"gpt-4o*": "smollm2", "*": "qwen"}, where * alone is the default.',
    )
    allowed = models.JSONField(
        "allowed models",
        default=list,
        blank=True,
        validators=[check_allowed],
        help_text="The names of presets or aliases that it may use, of those that its team may: "
        '["qwen*", "smollm2"]. Empty: all.',
    )
    in_session = models.BooleanField(
        "of the playground",
        default=False,
        editable=False,
        help_text="It has no text: its owner's sessions use it, in the playground.",
    )
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Exact to a minute."
    )

    text = ""
    """The key itself, in the moment in which it is made. It is never stored."""

    history = HistoricalRecords(excluded_fields=["digest", "last_used_at"])

    class Meta:
        verbose_name = "API key"
        ordering = ["team__name", "name", "public_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team"],
                condition=Q(in_session=True),
                name="one_key_of_sessions_in_a_team",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} (ck_{self.public_id}_…)"

    def clean(self) -> None:
        check_where_they_lead(self)
        if not scopes_problem(self.scopes):
            self.scopes = in_order(self.scopes)
            self._check_owner()

    @property
    def effective_scopes(self) -> frozenset[str]:
        return effective(self.scopes, may_admin=self.user is None or self.user.is_superuser)

    def _check_owner(self) -> None:
        """Raises ValidationError for a person who could not use it."""
        if self.user is None or self.team_id is None:
            return
        if not Membership.objects.filter(user=self.user, team=self.team_id).exists():
            raise ValidationError(
                {
                    "user": _("%(get_username)s is not a member of this team.")
                    % {"get_username": self.user.get_username()}
                }
            )
        if OF_SUPERUSERS.intersection(self.scopes) and not self.user.is_superuser:
            raise ValidationError(
                {
                    "scopes": _(
                        "Only a superuser's own key may reach beyond its team (metrics, admin)."
                    )
                }
            )
