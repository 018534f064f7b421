"""What a browser sends of a form's other rows, where there are none."""

from __future__ import annotations

from typing import Any

NO_LIMITS = {"limits-TOTAL_FORMS": 0, "limits-INITIAL_FORMS": 0}
NO_MEMBERS = {
    "member_scopes": ["infer"],
    "content_days": 7,
    "memberships-TOTAL_FORMS": 0,
    "memberships-INITIAL_FORMS": 0,
}


def sent_by(page: Any) -> dict[str, Any]:
    """What a browser would send of a page that nobody has changed."""
    forms = [page.context["adminform"].form]
    for inline in page.context["inline_admin_formsets"]:
        forms += [inline.formset.management_form, *inline.formset.forms]
    values = {field.html_name: field.value() for form in forms for field in form}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }
