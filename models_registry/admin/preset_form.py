"""The form of a preset: what is locked and why, and what happens when two people edit at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import history, kept_secrets, upstream_keys
from models_registry.admin.base import badge
from models_registry.beneath import beneath
from models_registry.models import Engine, Preset
from models_registry.options.catalogue import Kind, Match
from models_registry.options.command_line import EffectiveOption, Layer
from models_registry.options.policy import GATEWAYS_OWN, Policy, gateways_own
from models_registry.options.policy_keys import POLICY_KEYS, PolicyKey, policy_text_of, tag_words
from models_registry.options.preset_options import COLUMNS
from models_registry.restricted import RESTRICTED
from models_registry.tags import joined

if TYPE_CHECKING:  # generic for the type checker only
    _PresetModelForm = forms.ModelForm[Preset]
else:
    _PresetModelForm = forms.ModelForm

UNSET = gettext_lazy("unset: the engine's own default")
_FIELDS_OF_THE_KEY = frozenset({"new_upstream_key", "forget_upstream_key"})


class PresetForm(_PresetModelForm):
    """Carries the version that its values were read from. A newer one refuses the save, once: the
    form then shows the new version, with what was typed and with the others' changes elsewhere."""

    may_do_everything = True
    """See models_registry.restricted."""

    new_upstream_key = forms.CharField(
        label=gettext_lazy("upstream key"),
        required=False,
        max_length=kept_secrets.LONGEST,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    forget_upstream_key = forms.BooleanField(
        required=False, label=gettext_lazy("forget the upstream key")
    )

    seen_version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["seen_version"] = self.instance.version
        below = beneath(self.instance)
        for name, key in COLUMNS.items():
            if name not in self.fields:
                continue  # someone who may only look
            value = settings.CORRAL_COMMAND_LINE.get(key)
            option = below.options.get(key)
            if value is not None:
                option = EffectiveOption(key, value, Layer.COMMAND_LINE)
            told: str | Promise = UNSET
            if option:
                named = {"value": option.value, "where": option.where}
                told = _("unset: %(value)s (%(where)s)") % named
            self._show_what_counts(name, told)
            self._tell_of_engine(name, below.catalogue.find(key))
            if value is not None:
                self._lock(name, key, value)
        for policy_key in POLICY_KEYS.values():
            if policy_key.field in self.fields:
                self._show_policy(policy_key, below.policy)
        if not self.may_do_everything:
            self._restrict()
        if "new_upstream_key" in self.fields:
            self._show_key()

    def _restrict(self) -> None:
        for name in _FIELDS_OF_THE_KEY:  # on no page of theirs, but a POST may name them
            self.fields.pop(name, None)
        for name in self.fields.keys() & {*RESTRICTED}:
            field = self.fields[name]
            field.disabled = True
            field.help_text = format_html(_("{} Only superusers may edit them."), field.help_text)

    def _show_key(self) -> None:
        kept = bool(self.instance.upstream_key)
        self.fields["new_upstream_key"].help_text = (
            _("One is kept, and is not shown. Written here, another one takes its place.")
            if kept
            else _("Sent to the remote server with each request. It is kept, and not shown again.")
        )
        if not kept:
            self.fields["forget_upstream_key"].widget = forms.HiddenInput()

    def _show_what_counts(self, name: str, told: str | Promise) -> None:
        """While the field is empty."""
        field: Any = self.fields[name]
        if isinstance(field, forms.NullBooleanField):
            field.widget.choices = [("unknown", told), ("true", _("yes")), ("false", _("no"))]
        elif isinstance(field, forms.ChoiceField):
            choices: Any = field.choices
            field.choices = [("", told), *(choice for choice in choices if choice[0])]
        else:
            field.widget.attrs["placeholder"] = told

    def _tell_of_engine(self, name: str, match: Match | None) -> None:
        """What the engine in use says of an option: its words, and its own default."""
        if match is None:
            return
        option, field = match.option, self.fields[name]
        told = [
            _("One of %(join)s.") % {"join": ", ".join(option.choices)}
            if option.kind is Kind.CHOICE
            else ""
        ]
        told.append(
            _("The engine's default: %(default)s.") % {"default": option.default}
            if option.default
            else ""
        )
        field.help_text = format_html("{} {}", field.help_text, " ".join(filter(None, told)))

    def _show_policy(self, key: PolicyKey, policy: Policy) -> None:
        """A field that cannot be empty says nothing at its default."""
        by = policy.said_by.get(key.field)
        value = policy_text_of(key, getattr(policy, key.field)) if by else ""
        if key.unset is not None and by:
            field = self.fields[key.field]
            left = policy_text_of(key, key.unset) or _("empty")
            told = _("Left at %(left)s, %(where)s decides: %(value)s.") % {
                "left": left,
                "where": by.where,
                "value": value,
            }
            field.help_text = format_html("{} {}", field.help_text, told)
        elif key.unset is None and by:
            self._show_what_counts(
                key.field, _("unset: %(value)s (%(where)s)") % {"value": value, "where": by.where}
            )
        elif key.field in GATEWAYS_OWN:
            self._show_what_counts(
                key.field, _("unset: %(value)s (gateway)") % {"value": gateways_own(key.field)}
            )
        elif key.unset is None:
            self._show_what_counts(key.field, _("unset: no"))

    def _lock(self, name: str, key: str, value: str) -> None:
        field = self.fields[name]
        field.disabled = True
        field.help_text = format_html(
            _(
                "{} {} Serve's command line says {} = {} for every preset: "
                "what stands here does not count."
            ),
            field.help_text,
            badge(_("locked"), "warn"),
            key,
            value,
        )

    def clean_tags(self) -> str:
        return joined(tag_words(self.cleaned_data["tags"]))

    def clean_new_upstream_key(self) -> str:
        secret: str = self.cleaned_data["new_upstream_key"]
        if problem := kept_secrets.problem(secret):
            raise ValidationError(problem)
        return secret

    def _check_key(self) -> None:
        if self.cleaned_data.get("forget_upstream_key"):
            self.instance.upstream_key = ""
        new, engine = self.cleaned_data.get("new_upstream_key"), self.cleaned_data.get("engine")
        if new and engine != Engine.UPSTREAM:
            self.add_error("new_upstream_key", _("Only a remote server has a key: leave it empty."))

    @property
    def changed_data(self) -> list[str]:
        """With the column that the two fields of the key stand for."""
        changed = list(super().changed_data)
        by_hand = _FIELDS_OF_THE_KEY.intersection(changed)
        return [*changed, "upstream_key"] if by_hand else changed

    @contextlib.contextmanager
    def key_kept(self) -> Iterator[None]:
        """For the saving of the instance: a new key is kept, unless that fails."""
        if secret := self.cleaned_data.get("new_upstream_key"):
            with upstream_keys.kept(secret) as self.instance.upstream_key:
                yield
        else:
            yield

    # Two people at once -----------------------------------------------------------------

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self._check_key()
        if self.instance.pk is None:
            return cleaned
        # Read again under a lock: the instance was read before this transaction's first one.
        current = Preset.objects.select_for_update().filter(pk=self.instance.pk).first()
        if current is None:
            raise ValidationError(
                _("This preset was deleted meanwhile: its history can restore it.")
            )
        self.instance.version = current.version
        seen = self.cleaned_data.get("seen_version")
        if seen is None:
            raise ValidationError(_("This form came without its version: open the page again."))
        if seen != current.version:
            raise ValidationError(self._merge(current, seen))
        return cleaned

    def _merge(self, current: Preset, seen: int) -> list[str]:
        """Take the others' values where nothing was typed; say who did what, and what differs."""
        base = history.at_version(current, seen)
        done = history.since(current, seen)
        sent: Any = self.data
        data = sent.copy()
        data[self.add_prefix("seen_version")] = str(current.version)
        both: list[str] = []
        theirs = {change.name for version in done for change in version.changes}
        for name in theirs & self.fields.keys():
            field = current._meta.get_field(name)
            typed = self.cleaned_data.get(name, _INVALID)
            typed = getattr(typed, "pk", typed)
            value = getattr(current, field.attname)  # type: ignore[union-attr]
            if base is not None and typed == getattr(base, field.attname):  # type: ignore[union-attr]
                _put(data, self.add_prefix(name), self.fields[name], value)
            elif typed != value:
                both.append(str(self.fields[name].label))
        self.data = data
        told = [
            _("While this page was open, %(version)s.") % {"version": version} for version in done
        ]
        if both:
            told.append(
                _("What you typed differs from theirs in: %(join)s.")
                % {"join": ", ".join(sorted(both))}
            )
        told.append(_("Nothing was saved, and what you typed is kept. Check it, then save again."))
        return told


_INVALID = object()


def _put(data: Any, name: str, field: forms.Field, value: Any) -> None:
    """Into a form's data, as the browser would send it."""
    if isinstance(field.widget, forms.CheckboxInput):
        data.pop(name, None)
        if value:
            data[name] = "on"
    elif isinstance(field, forms.NullBooleanField):
        data[name] = {True: "true", False: "false", None: "unknown"}[value]
    elif isinstance(field, forms.JSONField):
        data[name] = json.dumps(value)
    else:
        data[name] = "" if value is None else str(value)
