"""The page on which a key is rotated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.utils.translation import gettext_lazy

from proxy.rotation import MOST_GRACE_HOURS, USUAL_GRACE_HOURS

if TYPE_CHECKING:  # unfold has no stubs
    _Number = forms.NumberInput
else:
    from unfold.widgets import UnfoldAdminIntegerFieldWidget as _Number


class RotationForm(forms.Form):
    grace_hours = forms.FloatField(
        label=gettext_lazy("Hours"),
        min_value=0,
        max_value=MOST_GRACE_HOURS,
        initial=USUAL_GRACE_HOURS,
        widget=_Number(attrs={"step": "any"}),
        help_text=gettext_lazy(
            "For so long the old key works beside the new one; 0 ends it at once."
        ),
    )
