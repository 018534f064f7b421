"""Presets in the admin: the form, what runs of them now, and what would be started."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import fitting, history
from models_registry.admin import fit as admin_fit
from models_registry.admin import importing as admin_import
from models_registry.admin import live
from models_registry.admin import options as admin_options
from models_registry.admin import trial as admin_trial
from models_registry.admin.asking import PINS, TRY, WISHES, ask
from models_registry.admin.base import (
    NOTHING,
    OBJECTS,
    file_problem,
    may_do_everything,
    model_url,
    told,
)
from models_registry.admin.importing import export_selected
from models_registry.admin.memory_shown import fit_shown, measured_shown, running_shown
from models_registry.admin.preset_bulk import clone_selected, organise_selected
from models_registry.admin.preset_form import PresetForm
from models_registry.admin.preset_list import PresetListAdmin, fresh, state_told
from models_registry.admin.preset_sections import sections
from models_registry.cloning import clone
from models_registry.describing import described, warnings_of
from models_registry.engines import DECLARED, EngineKind
from models_registry.errors import ManagementRefused
from models_registry.metadata_shown import metadata_shown
from models_registry.models import Alias, Preset
from models_registry.restricted import RESTRICTED, masked

if TYPE_CHECKING:  # Django's stubs are generic where its classes are not, and unfold has none
    _TabularInline = admin.TabularInline[Alias, Preset]
    _AliasBaseFormSet = BaseInlineFormSet[Alias, Preset, Any]
else:
    from unfold.admin import TabularInline as _TabularInline
    from unfold.forms import PaginationInlineFormSet as _AliasBaseFormSet

VERBS = (*WISHES, *PINS)


class AliasFormSet(_AliasBaseFormSet):
    """Sees the preset's name as it is being changed in the same form; each alias's own check sees
    only what is stored."""

    def clean(self) -> None:
        super().clean()
        for form in self.forms:
            cleaned = getattr(form, "cleaned_data", {})
            if cleaned.get("name") == self.instance.name and not cleaned.get("DELETE"):
                raise ValidationError(_("An alias cannot have its preset's own name."))


class AliasInline(_TabularInline):
    model = Alias
    formset = AliasFormSet
    extra = 0
    fields = ["name", "request_set"]
    formfield_overrides = OBJECTS


@admin.register(Preset)
class PresetAdmin(PresetListAdmin):
    form = PresetForm
    autocomplete_fields = ["model_file", "base"]
    inlines = [AliasInline]
    warn_unsaved_form = True
    change_form_template = "admin/models_registry/preset/change_form.html"

    def get_fieldsets(self, request: HttpRequest, obj: Preset | None = None) -> Any:
        return sections(masked=not may_do_everything(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Preset | None = None) -> Any:
        return [] if may_do_everything(request) else ["environment_shown", "upstream_key_shown"]

    def get_form(
        self, request: HttpRequest, obj: Preset | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.may_do_everything = may_do_everything(request)
        return form

    def get_actions(self, request: HttpRequest) -> Any:
        """One per verb, for those who may change presets."""
        actions: Any = super().get_actions(request)
        if self.has_change_permission(request):
            for verb in VERBS:
                label = _("%(verb)s the selected presets") % {"verb": _label(verb)}
                actions[verb] = (partial(_act, verb), verb, label)
            label = _("Change tags, group and profiles of the selected presets")
            actions["organise"] = (organise_selected, "organise", label)
        actions["export"] = (export_selected, "export", _("Export the selected presets (INI)"))
        if self.has_add_permission(request):
            actions["clone"] = (clone_selected, "clone", _("Clone the selected presets"))
        return actions

    @admin.display(description=gettext_lazy("environment"))
    def environment_shown(self, preset: Preset) -> SafeString | str:
        """For who may not edit it."""
        return told(masked(preset.environment)) if preset.environment else NOTHING

    @admin.display(description=gettext_lazy("upstream key"))
    def upstream_key_shown(self, preset: Preset) -> str:
        """For who may not edit it."""
        return _("kept") if preset.upstream_key else NOTHING

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
                stored = Preset.objects.select_related("model_file__metadata").get(pk=preset.pk)
                answer.context_data |= self._beside(request, stored)
        return answer

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        preset = context.get("original")
        context["fit_url"] = admin_fit.url_for(self, request, preset)
        context["trial_url"] = admin_trial.url_for(self, request, preset)
        context["model_url"] = "" if preset is None else model_url(preset.pk)
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
            "file_problem": _vanished(file_problem(preset.model_file)),
            "header": metadata_shown(preset.model_file),
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
            "saved": live.saved_told(status),
            "badges": state_told(status, pinned=preset.pinned),
            "away": statuses.away,
            "measured": measured,
            "running": [running_shown(each) for each in status.running],
            "may_change": self.has_change_permission(request, preset),
            "remote": preset.engine == EngineKind.UPSTREAM,
            "declared": preset.declared_memory,
            "buttons": _buttons(preset, stale=status.stale, running=status.state == "loaded"),
            "may_clone": self.has_add_permission(request),
            "seen": hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16],
        }
        if request.GET.get("seen") == context["seen"]:
            return SafeString()
        return render_to_string("admin/models_registry/preset/now.html", context, request)

    # What a person can do ---------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            *admin_fit.urls(self),
            *admin_trial.urls(self),
            *admin_import.urls(self),
            *admin_options.urls(self),
            path("<int:pk>/now/", self.now_view, name="models_registry_preset_now"),
            path("<int:pk>/clone/", view(self.clone_view), name="models_registry_preset_clone"),
            *(
                path(
                    f"<int:pk>/{verb}/",
                    view(self.ask_view),
                    {"verb": verb},
                    name=f"models_registry_preset_{verb}",
                )
                for verb in (*VERBS, TRY)
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

    def clone_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The copy is saved, and its form is the next page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        preset = get_object_or_404(Preset, pk=pk)
        if not self.has_add_permission(request):
            raise PermissionDenied
        try:
            copy = clone(preset, reason=f"a clone of {preset.name}")
        except ValidationError as error:
            messages.error(
                request, _("It cannot be cloned: %(join)s") % {"join": " ".join(error.messages)}
            )
            return HttpResponseRedirect(reverse("admin:models_registry_preset_change", args=[pk]))
        messages.success(
            request,
            _("This is %(name)s, with all options of %(name2)s.")
            % {"name": copy.name, "name2": preset.name},
        )
        return HttpResponseRedirect(reverse("admin:models_registry_preset_change", args=[copy.pk]))

    # What pages ask for by themselves: an ended session gets no login page into their midst ---

    def now_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        preset = Preset.objects.filter(pk=pk).first()
        if preset is None or not self.may_watch(request):
            return HttpResponse(status=204)
        return fresh(self._now(request, preset))

    # Saving -----------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Preset, form: Any, change: bool) -> None:
        """A renamed preset keeps its old name as an alias: clients go on with it. A save that
        changes nothing makes no version."""
        if change and not form.changed_data:
            return
        old_name = form.initial.get("name") if change else None
        with form.key_kept():
            super().save_model(request, obj, form, change)
        self._keep_old_name(request, obj, old_name)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if change and not form.changed_data and any(each.has_changed() for each in formsets):
            form.instance.save()  # whoever else has the page open shall see that it changed
        if "_continue" not in request.POST:  # its own page says so by itself
            for warning in warnings_of(form.instance):
                messages.warning(request, f"{form.instance.name}: {warning}")

    def _keep_old_name(self, request: HttpRequest, preset: Preset, old_name: str | None) -> None:
        if old_name and old_name != preset.name:
            Alias.objects.get_or_create(name=old_name, defaults={"preset": preset})
            messages.info(
                request,
                _("%(old_name)s stays as an alias of %(name)s.")
                % {"old_name": old_name, "name": preset.name},
            )

    def before_going_back(self, request: HttpRequest, live: Any, record: history.Record) -> None:
        for field in () if may_do_everything(request) else RESTRICTED:
            before = getattr(Preset() if live is None else live, field)
            if before != getattr(record, field):
                label = record.instance_type._meta.get_field(field).verbose_name
                raise ValidationError(
                    _("Only superusers may change the %(label)s, which differ.") % {"label": label}
                )
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


def _vanished(problem: str) -> str:
    if not problem:
        return ""
    told = _("Its model file has vanished: %(problem)s. Bring it back, or choose another file.")
    return told % {"problem": problem}


def _buttons(preset: Preset, *, stale: bool, running: bool) -> list[dict[str, Any]]:
    """Those that make sense now; the likeliest one stands out. Of a remote server nothing is
    loaded, pinned or measured."""
    verbs = ["apply"] if stale else []
    verbs += ["load", "unload", "unpin" if preset.pinned else "pin", "measure"]
    main = "apply" if stale else "" if running else "load"
    if preset.engine == EngineKind.UPSTREAM:
        verbs, main = [TRY], ""
    if preset.engine in DECLARED:
        verbs.remove("measure")
    return [
        {
            "label": _label(verb),
            "url": reverse(f"admin:models_registry_preset_{verb}", args=[preset.pk]),
            "main": verb == main,
        }
        for verb in verbs
    ]


def _label(verb: str) -> str:
    if verb == TRY:
        return _("Test the connection")
    if verb in WISHES:
        return str(WISHES[verb].label)
    return _("Pin") if verb == "pin" else _("Unpin")


def _act(
    verb: str, model_admin: PresetAdmin, request: HttpRequest, presets: QuerySet[Preset]
) -> None:
    """An action of the list."""
    ask(request, verb, presets)
