"""The list of presets in the admin: what stands in its columns, and how it is filtered."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import ports, tags
from models_registry.admin import live
from models_registry.admin.base import (
    NOTHING,
    badge,
    file_problem,
    link,
    mebibytes,
    model_url,
)
from models_registry.admin.history import HistoryAdmin
from models_registry.admin.preset_order import ByValue, asked_order
from models_registry.models import Preset
from models_registry.ports import PresetStatus

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _ChangeList = ChangeList
else:
    from unfold.views import ChangeList as _ChangeList


class PresetChangeList(_ChangeList):
    """Asks the scheduler once for the whole page, and the record once, and keeps what they say
    beside each row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if request.method != "GET":
            return
        statuses = live.live_statuses()
        if statuses.away:
            messages.warning(request, statuses.away)
        self.result_list = list(self.result_list)
        used = _last_used(preset.name for preset in self.result_list)
        for preset in self.result_list:
            preset.live_status = statuses.of(preset.name)
            preset.last_used_at = used.get(preset.name)


def _last_used(names: Iterable[str]) -> dict[str, Any]:
    try:
        return ports.scheduler().last_used(list(names))
    except ports.SchedulerUnavailable:
        return {}


class TagFilter(admin.SimpleListFilter):
    title = gettext_lazy("tag")
    parameter_name = "tag"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(tag, tag) for tag in tags.all_tags()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        tag = self.value()
        return queryset.filter(tags.tagged(tag)) if tag else None


class PresetListAdmin(HistoryAdmin):
    list_display = [
        "name", "state", "page", "file", "size", "need", "last_use", "source", "tag_names", "group",
        "profile_names", "alias_names",
    ]  # fmt: skip
    list_filter = [
        "source",
        "engine",
        TagFilter,
        "group",
        "profiles",
        "pinned",
        "model_file__metadata__architecture",
        "model_file__metadata__quantisation",
        ("model_file__missing_since", admin.EmptyFieldListFilter),
        "load_on_startup",
        "priority",
    ]
    search_fields = [
        "name", "aliases__name", "tags", "model_file__path", "model_file__metadata__name",
    ]  # fmt: skip
    list_select_related = ["model_file", "group"]
    change_list_template = "admin/models_registry/preset/change_list.html"
    list_after_template = "admin/models_registry/preset/states.html"
    list_per_page = 50
    list_max_show_all = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Preset]:
        return super().get_queryset(request).prefetch_related("aliases", "profiles")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return PresetChangeList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Any:
        columns = [*self.get_list_display(request)]
        if self.get_actions(request):
            columns.insert(0, ACTION_CHECKBOX_NAME)
        column, descending = asked_order(request, columns)
        if not column:
            return super().get_paginator(request, queryset, per_page, *args, **kwargs)
        paginator = ByValue(queryset, per_page, *args, **kwargs)
        paginator.column, paginator.descending = column, descending
        return paginator

    def get_urls(self) -> list[URLPattern]:
        states = path("states/", self.states_view, name="models_registry_preset_states")
        return [states, *super().get_urls()]

    # Columns ----------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("state"))
    def state(self, preset: Preset) -> SafeString:
        status = getattr(preset, "live_status", None) or live.live_statuses().of(preset.name)
        told = state_told(status, pinned=preset.pinned)
        return format_html('<span id="state-{}">{}</span>', preset.pk, told)

    @admin.display(description=gettext_lazy("page"))
    def page(self, preset: Preset) -> SafeString:
        """Of the model: what it did, said and took."""
        hidden = format_html('<span class="corral-hidden"> {}</span>', preset.name)
        return format_html('<a href="{}">{}{}</a>', model_url(preset.pk), _("Open"), hidden)

    @admin.display(description=gettext_lazy("model file"), ordering="model_file__path")
    def file(self, preset: Preset) -> SafeString | str:
        """Its last part: the whole path is long, and stands in the title."""
        row = preset.model_file
        if row is None:
            return preset.upstream_url or NOTHING
        linked = link("modelfile", row.pk, PurePath(row.path).name, title=row.path)
        missing = badge(_("file missing"), "bad") if file_problem(row) else ""
        return format_html("{} {}", linked, missing)

    @admin.display(description=gettext_lazy("size"), ordering="model_file__size")
    def size(self, preset: Preset) -> str:
        size = preset.model_file.size if preset.model_file is not None else 0
        return _short(size) if size else NOTHING

    @admin.display(description=gettext_lazy("memory need"), ordering=F("pk"))  # see preset_order
    def need(self, preset: Preset) -> SafeString | str:
        """As measured, at its smallest."""
        status: PresetStatus = getattr(preset, "live_status", live.UNLOADED)
        pairs = ((device, _short(size)) for device, size in status.need.items())
        return format_html_join("", "<div>{} {}</div>", pairs) or NOTHING

    @admin.display(description=gettext_lazy("last use"), ordering=F("pk"))
    def last_use(self, preset: Preset) -> SafeString | str:
        status: PresetStatus = getattr(preset, "live_status", live.UNLOADED)
        if status.running:
            return _("now")
        at = getattr(preset, "last_used_at", None)
        if at is None:
            return NOTHING
        local = f"{timezone.localtime(at):%Y-%m-%d %H:%M}"
        ago = _("%(time)s ago") % {"time": timesince(at, depth=1)}
        return format_html('<span title="{}">{}</span>', local, ago)

    @admin.display(description=gettext_lazy("tags"), ordering="tags")
    def tag_names(self, preset: Preset) -> str:
        return tags.joined(tags.tags_of(preset)) or NOTHING

    @admin.display(description=gettext_lazy("profiles"))
    def profile_names(self, preset: Preset) -> SafeString | str:
        named = ((row.name, "" if row.active else _(" (off)")) for row in preset.profiles.all())
        return format_html_join(", ", "{}{}", named) or NOTHING

    @admin.display(description=gettext_lazy("aliases"))
    def alias_names(self, preset: Preset) -> str:
        return ", ".join(alias.name for alias in preset.aliases.all()) or NOTHING

    # What the list asks for by itself: an ended session gets no login page into its midst ---

    def states_view(self, request: HttpRequest) -> HttpResponse:
        """Every state that the list named in `ids` shows, each to be put into its own place."""
        keys = _keys(request.GET.get("ids", ""))
        if not self.may_watch(request):
            return HttpResponse(status=204)
        statuses = live.live_statuses()
        presets = Preset.objects.filter(pk__in=keys).only("pk", "name", "pinned")
        states = (
            (preset.pk, state_told(statuses.of(preset.name), pinned=preset.pinned))
            for preset in presets
        )
        return fresh(
            format_html_join("", '<span id="state-{}" hx-swap-oob="true">{}</span>', states)
        )

    def may_watch(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request) and self.has_view_or_change_permission(
            request
        )


def _short(size: int) -> str:
    """A column is narrow; with a space that does not break."""
    return f"{size / 2**30:,.1f}\N{NO-BREAK SPACE}GiB" if size >= 2**30 else mebibytes(size)


def state_told(status: PresetStatus, *, pinned: bool) -> SafeString:
    badges = live.badges(status)
    return format_html("{} {}", badges, badge(_("pinned"))) if pinned else badges


def fresh(content: str) -> HttpResponse:
    """204 when there is nothing new: the page keeps what it has."""
    answer = HttpResponse(content, status=200 if content else 204)
    add_never_cache_headers(answer)
    return answer


def _keys(written: str) -> list[int]:
    """As a list's page writes them, no more than one can show; a database takes 64 bits."""
    keys = written.split(",")[:500]
    return [int(key) for key in keys if key.isdecimal() and len(key) <= 18]
