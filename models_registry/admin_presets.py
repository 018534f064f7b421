"""Presets in the admin: the form, what runs of them now, and what would be started."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from models_registry import admin_fit, fitting, history, live
from models_registry.admin_asking import PINS, WISHES, ask
from models_registry.admin_base import NOTHING, badge, file_link, file_problem
from models_registry.admin_history import HistoryAdmin
from models_registry.describing import described
from models_registry.errors import ManagementRefused
from models_registry.memory_shown import fit_shown, measured_shown, running_shown
from models_registry.models import Alias, Preset
from models_registry.ports import PresetStatus
from models_registry.preset_form import PresetForm

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _TabularInline = admin.TabularInline[Alias, Preset]
    _AliasBaseFormSet = BaseInlineFormSet[Alias, Preset, Any]
    _ChangeList = ChangeList
else:
    from unfold.admin import TabularInline as _TabularInline
    from unfold.forms import PaginationInlineFormSet as _AliasBaseFormSet
    from unfold.views import ChangeList as _ChangeList

VERBS = (*WISHES, *PINS)


class PresetChangeList(_ChangeList):
    """Asks the scheduler once for the whole page, and keeps the answer beside each row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if request.method != "GET":
            return
        statuses = live.live_statuses()
        if statuses.away:
            messages.warning(request, statuses.away)
        self.result_list = list(self.result_list)
        for preset in self.result_list:
            preset.live_status = statuses.of(preset.name)


class AliasFormSet(_AliasBaseFormSet):
    """Sees the preset's name as it is being changed in the same form; each alias's own check sees
    only what is stored."""

    def clean(self) -> None:
        super().clean()
        for form in self.forms:
            cleaned = getattr(form, "cleaned_data", {})
            if cleaned.get("name") == self.instance.name and not cleaned.get("DELETE"):
                raise ValidationError("An alias cannot have its preset's own name.")


class AliasInline(_TabularInline):
    model = Alias
    formset = AliasFormSet
    extra = 0
    fields = ["name"]


@admin.register(Preset)
class PresetAdmin(HistoryAdmin):
    form = PresetForm
    list_display = ["name", "state", "file", "ctx_size", "parallel", "alias_names"]
    list_filter = ["source", "pinned", "load_on_startup", "priority"]
    search_fields = ["name", "aliases__name", "model_file__path"]
    list_select_related = ["model_file"]
    list_after_template = "admin/models_registry/preset/states.html"
    autocomplete_fields = ["model_file"]
    inlines = [AliasInline]
    warn_unsaved_form = True
    change_form_template = "admin/models_registry/preset/change_form.html"
    fieldsets = [
        (None, {"fields": ["name", "model_file"]}),
        (
            "Context and slots",
            {
                "fields": ["ctx_size", "parallel"],
                "description": "A field left empty is decided by the layer below: the engine's "
                "environment, or its own default. Slots that are set divide the context equally; "
                "left unset, four share all of it (kv-unified).",
            },
        ),
        ("Hardware", {"fields": ["n_gpu_layers", "threads", "flash_attn"]}),
        (
            "Memory",
            {
                "fields": ["placement", "context_cap", "replicas"],
                "description": "What Corral may choose by itself: where the model goes, while GPU "
                "layers is unset or auto, and how large its context is, while context is unset. A "
                "change counts at the next load.",
            },
        ),
        ("Batches", {"fields": ["batch_size", "ubatch_size"]}),
        ("KV cache", {"fields": ["cache_type_k", "cache_type_v"]}),
        ("Use", {"fields": ["embeddings"]}),
        (
            "Waiting",
            {
                "fields": ["priority", "max_wait", "queue_limit"],
                "description": "What happens when not all models have room at once. A change "
                "counts at once, without a new load.",
            },
        ),
        (
            "Staying loaded",
            {
                "fields": [
                    "pinned",
                    "load_on_startup",
                    "min_residency",
                    "keep_alive",
                    "sleep_idle",
                ],
                "description": "A model without requests stays until another one needs its room, "
                "unless something here says otherwise. A change counts at once; that of sleeping, "
                "which the engine does, at the next load.",
            },
        ),
        ("Starting and stopping", {"fields": ["readiness_probe", "stop_timeout"]}),
        ("Other options", {"fields": ["extra_options"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Preset]:
        return super().get_queryset(request).prefetch_related("aliases")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return PresetChangeList

    def get_form(
        self, request: HttpRequest, obj: Preset | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.may_edit_extra_options = _may_edit_extra_options(request)
        return form

    def get_actions(self, request: HttpRequest) -> Any:
        """One per verb, for those who may change presets."""
        actions: Any = super().get_actions(request)
        if self.has_change_permission(request):
            for verb in VERBS:
                label = f"{_label(verb)} the selected presets"
                actions[verb] = (partial(_act, verb), verb, label)
        return actions

    # What the list shows ----------------------------------------------------------------

    @admin.display(description="state")
    def state(self, preset: Preset) -> SafeString:
        status = getattr(preset, "live_status", None) or live.live_statuses().of(preset.name)
        told = _state_told(status, pinned=preset.pinned)
        return format_html('<span id="state-{}">{}</span>', preset.pk, told)

    @admin.display(description="model file", ordering="model_file__path")
    def file(self, preset: Preset) -> SafeString:
        return file_link(preset.model_file)

    @admin.display(description="aliases")
    def alias_names(self, preset: Preset) -> str:
        return ", ".join(alias.name for alias in preset.aliases.all()) or NOTHING

    # What a preset's page shows beside its form -----------------------------------------

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {"show_save_and_add_another": False, **(extra_context or {})}
        answer = super().change_view(request, object_id, form_url, context)
        if isinstance(answer, TemplateResponse) and answer.context_data is not None:
            preset = answer.context_data.get("original")
            if preset is not None:
                stored = Preset.objects.select_related("model_file").get(pk=preset.pk)
                answer.context_data |= self._beside(request, stored)
        return answer

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        preset = context.get("original")
        context["fit_url"] = admin_fit.url_for(self, request, preset)
        return super().render_change_form(request, context, *args, **kwargs)

    def _beside(self, request: HttpRequest, preset: Preset) -> dict[str, Any]:
        try:
            started = described(preset)
        except ManagementRefused as refusal:
            started = {"problem": str(refusal)}
        return {
            "now": self._now(request, preset),
            "started": started,
            "fit": fit_shown(lambda: fitting.fit_of(preset)),
            "file_problem": file_problem(preset.model_file),
        }

    def _now(self, request: HttpRequest, preset: Preset) -> SafeString:
        """The part of the page that is alive, and asks for itself anew."""
        statuses = live.live_statuses()
        status = statuses.of(preset.name)
        measured = measured_shown(preset)
        row = measured.get("row")
        known = [repr(status), statuses.away, preset.pinned, preset.name]
        known += [row.state, str(row.measured_at), row.error] if row is not None else []
        context = {
            "preset": preset,
            "status": status,
            "failure": live.failure_told(status),
            "badges": _state_told(status, pinned=preset.pinned),
            "away": statuses.away,
            "measured": measured,
            "running": [running_shown(each) for each in status.running],
            "may_change": self.has_change_permission(request, preset),
            "buttons": _buttons(preset, stale=status.stale, running=status.state == "loaded"),
            "seen": hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16],
        }
        if request.GET.get("seen") == context["seen"]:
            return SafeString()
        return render_to_string("admin/models_registry/preset/now.html", context, request)

    # What a person can do ---------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("states/", self.states_view, name="models_registry_preset_states"),
            *admin_fit.urls(self),
            path("<int:pk>/now/", self.now_view, name="models_registry_preset_now"),
            *(
                path(
                    f"<int:pk>/{verb}/",
                    view(self.ask_view),
                    {"verb": verb},
                    name=f"models_registry_preset_{verb}",
                )
                for verb in VERBS
            ),
            *super().get_urls(),
        ]

    def ask_view(self, request: HttpRequest, pk: int, verb: str) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        preset = get_object_or_404(Preset, pk=pk)
        if not self.has_change_permission(request, preset):
            raise PermissionDenied
        ask(request, verb, [preset])
        return HttpResponseRedirect(reverse("admin:models_registry_preset_change", args=[pk]))

    # What pages ask for by themselves: an ended session gets no login page into their midst ---

    def now_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        preset = Preset.objects.filter(pk=pk).first()
        if preset is None or not self._may_watch(request):
            return HttpResponse(status=204)
        return _fresh(self._now(request, preset))

    def states_view(self, request: HttpRequest) -> HttpResponse:
        """Every state that the list named in `ids` shows, each to be put into its own place."""
        keys = _keys(request.GET.get("ids", ""))
        if not self._may_watch(request):
            return HttpResponse(status=204)
        statuses = live.live_statuses()
        presets = Preset.objects.filter(pk__in=keys)
        states = (
            (preset.pk, _state_told(statuses.of(preset.name), pinned=preset.pinned))
            for preset in presets
        )
        return _fresh(
            format_html_join("", '<span id="state-{}" hx-swap-oob="true">{}</span>', states)
        )

    def _may_watch(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request) and self.has_view_or_change_permission(
            request
        )

    # Saving -----------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Preset, form: Any, change: bool) -> None:
        """A renamed preset keeps its old name as an alias: clients go on with it. A save that
        changes nothing makes no version."""
        if change and not form.changed_data:
            return
        old_name = form.initial.get("name") if change else None
        super().save_model(request, obj, form, change)
        self._keep_old_name(request, obj, old_name)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if change and not form.changed_data and any(each.has_changed() for each in formsets):
            form.instance.save()  # whoever else has the page open shall see that it changed

    def _keep_old_name(self, request: HttpRequest, preset: Preset, old_name: str | None) -> None:
        if old_name and old_name != preset.name:
            Alias.objects.get_or_create(name=old_name, defaults={"preset": preset})
            messages.info(request, f"{old_name} stays as an alias of {preset.name}.")

    def before_going_back(self, request: HttpRequest, live: Any, record: history.Record) -> None:
        before = live.extra_options if live is not None else ""
        if before != record.extra_options and not _may_edit_extra_options(request):
            raise ValidationError("Only superusers may change the other options, which differ.")
        if live is not None:
            # The alias that a rename left behind would stand in the way of its own old name.
            for alias in Alias.objects.filter(name=record.name, preset=live):
                alias.delete()

    def save_gone_back(self, request: HttpRequest, row: Any, was: str | None) -> None:
        super().save_gone_back(request, row, was)
        self._keep_old_name(request, row, was)
        if was is None:
            for alias in history.lost_aliases(row):
                alias.save(force_insert=True)


def _state_told(status: PresetStatus, *, pinned: bool) -> SafeString:
    badges = live.badges(status)
    return format_html("{} {}", badges, badge("pinned")) if pinned else badges


def _buttons(preset: Preset, *, stale: bool, running: bool) -> list[dict[str, Any]]:
    """Those that make sense now; the likeliest one stands out."""
    verbs = ["apply"] if stale else []
    verbs += ["load", "unload", "unpin" if preset.pinned else "pin", "measure"]
    main = "apply" if stale else "" if running else "load"
    return [
        {
            "label": _label(verb),
            "url": reverse(f"admin:models_registry_preset_{verb}", args=[preset.pk]),
            "main": verb == main,
        }
        for verb in verbs
    ]


def _keys(written: str) -> list[int]:
    """As a list's page writes them, no more than one can show; a database takes 64 bits."""
    keys = written.split(",")[:500]
    return [int(key) for key in keys if key.isdecimal() and len(key) <= 18]


def _label(verb: str) -> str:
    return WISHES[verb].label if verb in WISHES else verb.capitalize()


def _act(
    verb: str, model_admin: PresetAdmin, request: HttpRequest, presets: QuerySet[Preset]
) -> None:
    """An action of the list."""
    ask(request, verb, presets)


def _may_edit_extra_options(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _fresh(content: str) -> HttpResponse:
    """204 when there is nothing new: the page keeps what it has."""
    answer = HttpResponse(content, status=200 if content else 204)
    add_never_cache_headers(answer)
    return answer
