"""Fields of forms for lists that are kept as JSON: scopes are ticked, names stand on lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _

from proxy.scopes import IN_WORDS, USUAL, Scope

if TYPE_CHECKING:  # unfold has no stubs
    _Checkboxes = forms.CheckboxSelectMultiple
    _Lines = forms.Textarea
else:
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as _Checkboxes
    from unfold.widgets import UnfoldAdminTextareaWidget as _Lines


class NamesField(forms.CharField):
    """A list of names, one on each line."""

    widget = _Lines

    def __init__(self, **kwargs: Any) -> None:
        attrs = {"rows": 3, "spellcheck": "false", "class": "font-mono"}
        super().__init__(**{"required": False, "widget": _Lines(attrs), **kwargs})

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        lines = (line.strip() for line in str(value or "").splitlines())
        return [line for line in lines if line]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or []))


def scopes_field(among: Iterable[Scope], **kwargs: Any) -> forms.MultipleChoiceField:
    """A new row's are the usual ones, unless `initial` says others."""
    choices = [(str(each), f"{each}: {_(IN_WORDS[each])}") for each in among]
    told = {"initial": [str(each) for each in USUAL], **kwargs}
    return forms.MultipleChoiceField(choices=choices, widget=_Checkboxes, **told)
