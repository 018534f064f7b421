"""How the admin looks: django-unfold's settings. Everything it loads is served from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _

_static = lazy(static, str)  # the apps that serve files are not loaded yet


def _may_view(permission: str) -> Callable[[HttpRequest], bool]:
    app, model = permission.split(".")

    def allowed(request: HttpRequest) -> bool:
        user = request.user
        return user.has_perm(f"{app}.view_{model}") or user.has_perm(f"{app}.change_{model}")

    return allowed


def _page(title: str, icon: str, model: str, *, seen_with: str = "") -> dict[str, Any]:
    """`seen_with`: the model whose permission counts, if it is another one."""
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{model.replace('.', '_')}_changelist"),
        "permission": _may_view(seen_with or model),
    }


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Corral",
    "SITE_HEADER": "Corral",
    "SITE_SUBHEADER": "models behind one port",
    "SITE_ICON": _static("corral/icon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "href": _static("corral/icon.svg"), "type": "image/svg+xml"}],
    "SITE_URL": None,
    "STYLES": [_static("corral/admin.css")],
    "BORDER_RADIUS": "6px",
    "COLORS": {
        "primary": {
            "50": "oklch(97.7% .017 180)",
            "100": "oklch(94.5% .045 180)",
            "200": "oklch(89.5% .075 181)",
            "300": "oklch(82.5% .105 182)",
            "400": "oklch(72% .11 183)",
            "500": "oklch(60.5% .1 185)",
            "600": "oklch(51.5% .088 187)",
            "700": "oklch(44% .075 188)",
            "800": "oklch(37.5% .062 190)",
            "900": "oklch(32% .05 192)",
            "950": "oklch(23.5% .038 194)",
        }
    },
    "ACCOUNT": {
        "navigation": [
            {"title": _("Your keys and usage"), "link": reverse_lazy("account:home")},
            {"title": _("Playground"), "link": reverse_lazy("account:playground")},
            {"title": _("Connect a client"), "link": reverse_lazy("account:connect")},
        ]
    },
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": False,
        "navigation": [
            {
                "title": "Now",
                "items": [
                    {
                        "title": "Live",
                        "icon": "monitoring",
                        "link": reverse_lazy("live:page"),
                        "permission": lambda request: request.user.has_perm(
                            "scheduler.view_instancerecord"
                        ),
                    },
                    {
                        "title": _("Playground"),
                        "icon": "forum",
                        "link": reverse_lazy("account:playground"),
                    },
                    {
                        "title": _("Connect a client"),
                        "icon": "cable",
                        "link": reverse_lazy("account:connect"),
                    },
                ],
            },
            {
                "title": "Models",
                "items": [
                    _page("Presets", "tune", "models_registry.preset"),
                    _page("Model files", "deployed_code", "models_registry.modelfile"),
                    _page("Aliases", "alternate_email", "models_registry.alias"),
                    _page("Sharing groups", "join_inner", "models_registry.group"),
                    _page("Profiles", "toggle_on", "models_registry.profile"),
                    _page("Global preset", "public", "models_registry.globalpreset"),
                    _page("Downloads", "download", "models_registry.download"),
                    _page("Measurements", "straighten", "models_registry.measurement"),
                ],
            },
            {
                "title": "Scheduler",
                "items": [
                    _page("Devices", "developer_board", "scheduler.devicelimit"),
                    _page("Instances", "memory", "scheduler.instancerecord"),
                    _page("Decisions", "fact_check", "scheduler.decisionrecord"),
                ],
            },
            {
                "title": "Usage",
                "items": [
                    _page("Usage", "bar_chart", "proxy.usageday", seen_with="proxy.usagerecord"),
                    _page("Requests", "receipt_long", "proxy.usagerecord"),
                ],
            },
            {
                "title": "Access",
                "items": [
                    _page("Teams", "groups", "proxy.team"),
                    _page("Members", "group_add", "proxy.membership"),
                    _page("Limits", "speed", "proxy.limit"),
                    _page("API keys", "key", "proxy.apikey"),
                    {
                        "title": "Your own keys",
                        "icon": "account_circle",
                        "link": reverse_lazy("account:home"),
                    },
                    _page("Users", "person", "auth.user"),
                    _page("Groups", "badge", "auth.group"),
                    _page("Audit trail", "history_edu", "models_registry.auditrecord"),
                ],
            },
        ],
    },
}
