"""What people edit: aliases here, the rest in admin_….py."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from models_registry import measurements
from models_registry.admin.audit import AuditRecordAdmin as AuditRecordAdmin
from models_registry.admin.base import (
    NOTHING,
    ReadOnlyAdmin,
    mebibytes,
    told,
)
from models_registry.admin.history import HistoryAdmin
from models_registry.admin.model_files import ModelFileAdmin as ModelFileAdmin
from models_registry.admin.presets import PresetAdmin as PresetAdmin
from models_registry.admin.sharing import GlobalPresetAdmin as GlobalPresetAdmin
from models_registry.admin.sharing import GroupAdmin as GroupAdmin
from models_registry.admin.sharing import ProfileAdmin as ProfileAdmin
from models_registry.downloads.admin import DownloadAdmin as DownloadAdmin
from models_registry.models import Alias, Measurement


@admin.register(Alias)
class AliasAdmin(HistoryAdmin):
    list_display = ["name", "preset"]
    list_select_related = ["preset"]
    search_fields = ["name", "preset__name"]
    autocomplete_fields = ["preset"]


@admin.register(Measurement)
class MeasurementAdmin(ReadOnlyAdmin):
    """Ordered with the Measure button of a preset."""

    list_display = ["preset", "state", "total", "engine", "measured_at"]
    list_filter = ["state", "way", "engine"]
    search_fields = ["preset", "fingerprint", "error"]
    fields = [
        "preset", "state", "total", "parts", "error_told", "engine", "way", "seconds", "attempts",
        "created_at", "ordered_at", "started_at", "measured_at", "used_at", "fingerprint",
    ]  # fmt: skip

    @admin.display(description=gettext_lazy("memory"))
    def total(self, row: Measurement) -> SafeString | str:
        totals = measurements.total_bytes(row).items()
        pairs = ((device, mebibytes(size)) for device, size in totals)
        return format_html_join(", ", "{} {}", pairs) or NOTHING

    @admin.display(description=gettext_lazy("parts"))
    def parts(self, row: Measurement) -> SafeString | str:
        rows = (
            (each["device"], *(mebibytes(each[part]) for part in ("model", "context", "compute")))
            for each in row.devices
        )
        line = "<div>{}: model {}, context {}, compute {}</div>"
        return format_html_join("", line, rows) or NOTHING

    @admin.display(description=gettext_lazy("error"))
    def error_told(self, row: Measurement) -> SafeString | str:
        return told(row.error) if row.error else NOTHING
