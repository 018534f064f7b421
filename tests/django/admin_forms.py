"""What a browser sends of a form's other rows, where there are none."""

NO_LIMITS = {"limits-TOTAL_FORMS": 0, "limits-INITIAL_FORMS": 0}
NO_MEMBERS = {
    "member_scopes": ["infer"],
    "content_days": 7,
    "memberships-TOTAL_FORMS": 0,
    "memberships-INITIAL_FORMS": 0,
}
