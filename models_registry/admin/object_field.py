"""A form's field for an object of JSON."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _


class ObjectField(forms.JSONField):
    """Empty text is the empty object, and so it is shown."""

    def to_python(self, value: Any) -> Any:
        found = super().to_python(value)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise ValidationError(_('Write an object, such as {"temperature": 0.7}.'))
        return found

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        return "" if value is None else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or {}))
        except ValidationError:
            return True
