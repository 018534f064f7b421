"""Devices in the admin: what each has and who holds it, and what Corral may use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry.admin.base import NOTHING, badge, mebibytes
from models_registry.admin.history import HistoryAdmin

from .describing import live_devices
from .limits import check_device, fixed_limits, set_by
from .live_page.words import described
from .models import DeviceLimit
from .protocol import DeviceState, Refused

if TYPE_CHECKING:  # generic for the type checker only
    _LimitModelForm = forms.ModelForm[DeviceLimit]
else:
    _LimitModelForm = forms.ModelForm


class DeviceLimitForm(_LimitModelForm):
    """What the environment or the command line sets is locked: it counts above the row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        device = self.instance.device or str(self.initial.get("device", ""))
        for name, setter in set_by(device).items():
            if name in self.fields:
                field = self.fields[name]
                field.disabled = True
                field.help_text = format_html(
                    _("{} {} Set by {}: what stands here does not count."),
                    field.help_text,
                    badge("locked", "warn"),
                    setter,
                )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "device" in cleaned:  # else its form is wrong already
            check_device(cleaned["device"])
        return cleaned


@admin.register(DeviceLimit)
class DeviceLimitAdmin(HistoryAdmin):
    form = DeviceLimitForm
    list_display = ("device", "budget_told", "margin_told")
    search_fields = ("device",)
    fields = ("device", "budget", "margin")
    list_before_template = "admin/scheduler/devicelimit/devices.html"

    @admin.display(description=gettext_lazy("budget"), ordering="budget")
    def budget_told(self, limit: DeviceLimit) -> SafeString | str:
        return _limit_told(limit, "budget")

    @admin.display(description=gettext_lazy("margin"), ordering="margin")
    def margin_told(self, limit: DeviceLimit) -> SafeString | str:
        return _limit_told(limit, "margin")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            devices, problem = live_devices(), ""
        except Refused as refusal:
            devices, problem = [], refusal.message
        rows = {limit.device.lower(): limit.pk for limit in DeviceLimit.objects.all()}
        context = {
            "title": _("Devices"),
            "devices_problem": problem,
            "devices": [_device_shown(each, rows.get(each.device.lower())) for each in devices],
            "held": [held for each in devices for held in _held_shown(each)],
            "may_limit": self.has_change_permission(request) and self.has_add_permission(request),
        }
        return super().changelist_view(request, context | (extra_context or {}))


def _limit_told(limit: DeviceLimit, name: str) -> SafeString | str:
    """What counts: a row's own figure, or that the environment sets it."""
    if name in set_by(limit.device):
        size = _fixed(limit.device, name)
        return format_html("{} {}", size, badge("locked", "warn"))
    value = getattr(limit, name)
    return NOTHING if value is None else f"{value:,} MiB"


def _fixed(device: str, name: str) -> str:
    """As it was written: percent of what the device has, or bytes."""
    fixed = fixed_limits()
    key = device.lower()
    size = fixed.budgets[key] if name == "budget" else fixed.margins.get(key, fixed.margin_each)
    assert size is not None, _("it is among those that are set")
    return mebibytes(size.bytes) if size.percent is None else f"{size.percent} %"


def _device_shown(device: DeviceState, row: int | None) -> dict[str, Any]:
    if row is not None:
        url = reverse("admin:scheduler_devicelimit_change", args=[row])
    else:
        add = reverse("admin:scheduler_devicelimit_add")
        url = f"{add}?{urlencode({'device': device.device})}"
    moving = {"leaving": device.leaving, "returning": device.returning}
    return {
        "device": device.device,
        "description": described(device.description),
        "total": mebibytes(device.total),
        "free": mebibytes(device.free),
        "external": mebibytes(device.external),
        "held": mebibytes(device.held),
        "moving": ", ".join(f"{mebibytes(size)} {how}" for how, size in moving.items() if size),
        "budget": NOTHING if device.budget is None else mebibytes(device.budget),
        "available": mebibytes(device.available),
        "margin": mebibytes(device.margin),
        "activity": _activity(device),
        "warning": _warning(device),
        "limit_url": url,
    }


def _activity(device: DeviceState) -> str:
    told = []
    if device.utilisation is not None:
        told.append(f"{device.utilisation} % busy")
    if device.temperature is not None:
        told.append(f"{device.temperature} \N{DEGREE SIGN}C")
    if device.power is not None:
        told.append(f"{device.power:.0f} W")
    return ", ".join(told)


def _warning(device: DeviceState) -> str:
    if device.stale is None:
        return device.warning
    since = _("these figures are %(stale)s s old") % {"stale": f"{device.stale:.0f}"}
    return f"{device.warning}; {since}" if device.warning else since


def _held_shown(device: DeviceState) -> list[dict[str, Any]]:
    return [
        {
            "instance": each.instance,
            "preset": each.preset,
            "device": device.device,
            "predicted": mebibytes(each.predicted),
            "actual": NOTHING if each.actual is None else mebibytes(each.actual),
            "held": mebibytes(each.held),
        }
        for each in device.instances
    ]
