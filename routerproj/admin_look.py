"""How the admin looks: django-unfold's settings. Everything it loads is served from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.functional import Promise, lazy
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_lazy as _

_static = lazy(static, str)  # the apps that serve files are not loaded yet


def _may_view(permission: str) -> Callable[[HttpRequest], bool]:
    app, model = permission.split(".")

    def allowed(request: HttpRequest) -> bool:
        user = request.user
        return user.has_perm(f"{app}.view_{model}") or user.has_perm(f"{app}.change_{model}")

    return allowed


def _page(title: str | Promise, icon: str, model: str, *, seen_with: str = "") -> dict[str, Any]:
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
    "SITE_SUBHEADER": gettext_lazy("models behind one port"),
    "SITE_ICON": _static("corral/icon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "href": _static("corral/icon.svg"), "type": "image/svg+xml"}],
    "SITE_URL": None,
    "STYLES": [_static("corral/admin.css")],
    "SCRIPTS": [_static("corral/icons.js")],
    "SHOW_LANGUAGES": True,
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
                "title": gettext_lazy("Now"),
                "items": [
                    {
                        "title": gettext_lazy("Live"),
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
                "title": gettext_lazy("Models"),
                "items": [
                    _page(gettext_lazy("Presets"), "tune", "models_registry.preset"),
                    _page(
                        gettext_lazy("Model files"), "deployed_code", "models_registry.modelfile"
                    ),
                    _page(gettext_lazy("Aliases"), "alternate_email", "models_registry.alias"),
                    _page(gettext_lazy("Sharing groups"), "join_inner", "models_registry.group"),
                    _page(gettext_lazy("Profiles"), "toggle_on", "models_registry.profile"),
                    _page(gettext_lazy("Global preset"), "public", "models_registry.globalpreset"),
                    _page(gettext_lazy("Downloads"), "download", "models_registry.download"),
                    _page(
                        gettext_lazy("Measurements"), "straighten", "models_registry.measurement"
                    ),
                ],
            },
            {
                "title": gettext_lazy("Scheduler"),
                "items": [
                    _page(gettext_lazy("Devices"), "developer_board", "scheduler.devicelimit"),
                    _page(gettext_lazy("Instances"), "memory", "scheduler.instancerecord"),
                    _page(gettext_lazy("Decisions"), "fact_check", "scheduler.decisionrecord"),
                ],
            },
            {
                "title": gettext_lazy("Usage"),
                "items": [
                    _page(
                        gettext_lazy("Usage"),
                        "bar_chart",
                        "proxy.usageday",
                        seen_with="proxy.usagerecord",
                    ),
                    _page(gettext_lazy("Requests"), "receipt_long", "proxy.usagerecord"),
                ],
            },
            {
                "title": gettext_lazy("Access"),
                "items": [
                    _page(gettext_lazy("Teams"), "groups", "proxy.team"),
                    _page(gettext_lazy("Members"), "group_add", "proxy.membership"),
                    _page(gettext_lazy("Limits"), "speed", "proxy.limit"),
                    _page(gettext_lazy("API keys"), "key", "proxy.apikey"),
                    {
                        "title": gettext_lazy("Your own keys"),
                        "icon": "account_circle",
                        "link": reverse_lazy("account:home"),
                    },
                    _page(gettext_lazy("Users"), "person", "auth.user"),
                    _page(gettext_lazy("Groups"), "badge", "auth.group"),
                    _page(
                        gettext_lazy("Audit trail"), "history_edu", "models_registry.auditrecord"
                    ),
                ],
            },
        ],
    },
}
