"""Groups, profiles and the global preset in the admin: what counts for many presets at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AutocompleteSelectMultiple
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from models_registry import history, profiles
from models_registry.admin.base import badge, may_do_everything
from models_registry.admin.history import HistoryAdmin
from models_registry.global_preset import the_global_preset
from models_registry.models import GlobalPreset, Group, Preset, Profile
from models_registry.organising import Wishes, organise

if TYPE_CHECKING:  # generic for the type checker only
    _GroupModelForm = forms.ModelForm[Group]
else:
    _GroupModelForm = forms.ModelForm

_NAMES_TOLD = 20


class GroupForm(_GroupModelForm):
    """A preset is in one group at most: who is added here leaves another one."""

    members = forms.ModelMultipleChoiceField(
        Preset.objects.all(),
        required=False,
        label=gettext_lazy("Presets"),
        help_text=gettext_lazy("One that is in another group leaves that."),
        # The list of choices is that of a profile's presets: searched, never sent whole.
        widget=AutocompleteSelectMultiple(Profile._meta.get_field("presets"), admin.site),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None and "members" in self.fields:
            self.initial["members"] = list(self.instance.presets.all())


@admin.register(Group)
class GroupAdmin(HistoryAdmin):
    form = GroupForm
    list_display = ["name", "one_at_a_time", "exclusive", "persistent", "size"]
    search_fields = ["name", "presets__name"]

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        own = ["name", "one_at_a_time", "exclusive", "persistent"]
        return [*own, "members" if self._moves(request, obj) else "member_names"]

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        return ["member_names"]

    def get_form(
        self, request: HttpRequest, obj: Group | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        if not self._moves(request, obj):
            del form.base_fields["members"]
        return form

    def _moves(self, request: HttpRequest, obj: Group | None) -> bool:
        """Members are a matter of the presets."""
        may = obj is None or self.has_change_permission(request, obj)
        return may and request.user.has_perm("models_registry.change_preset")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request)
        return rows.annotate(Count("presets"))

    @admin.display(description=gettext_lazy("presets"), ordering="presets__count")
    def size(self, group: Any) -> int:
        return int(group.presets__count)

    @admin.display(description=gettext_lazy("presets"))
    def member_names(self, group: Group) -> str:
        return ", ".join(group.presets.values_list("name", flat=True))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if "members" not in form.changed_data:
            return
        wanted, group = form.cleaned_data["members"], form.instance
        left = group.presets.exclude(pk__in=wanted)
        reason = f"by the page of the group {group.name}"
        organise(left, Wishes(regroup=True), reason=reason)
        organise(wanted, Wishes(regroup=True, group=group), reason=reason)


@admin.register(Profile)
class ProfileAdmin(HistoryAdmin):
    list_display = ["name", "state", "size", "description"]
    list_filter = ["active"]
    search_fields = ["name", "description", "presets__name"]
    fields = ["name", "description", "active", "presets"]
    autocomplete_fields = ["presets"]
    actions = ["activate", "deactivate"]
    change_form_template = "admin/models_registry/profile/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Profile]:
        rows: QuerySet[Profile] = super().get_queryset(request)
        return rows.annotate(Count("presets"))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.switch_view)
        return [
            path("<int:pk>/switch/", view, name="models_registry_profile_switch"),
            *super().get_urls(),
        ]

    @admin.display(description=gettext_lazy("presets"), ordering="presets__count")
    def size(self, profile: Any) -> int:
        return int(profile.presets__count)

    @admin.display(description=gettext_lazy("state"), ordering="active")
    def state(self, profile: Profile) -> SafeString:
        return badge("on", "good") if profile.active else badge("off")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        profile = Profile.objects.filter(pk=object_id).first() if object_id.isdecimal() else None
        context = {
            "profile": profile,
            "may_switch": profile is not None and self.has_change_permission(request, profile),
            "switches": listed(profiles.only_by(profile)) if profile is not None else "",
        }
        return super().change_view(request, object_id, form_url, context | (extra_context or {}))

    @admin.action(
        description=gettext_lazy("Switch the selected profiles on"), permissions=["change"]
    )
    def activate(self, request: HttpRequest, rows: QuerySet[Profile]) -> None:
        for profile in rows:
            _switch(request, profile, active=True)

    @admin.action(
        description=gettext_lazy("Switch the selected profiles off"), permissions=["change"]
    )
    def deactivate(self, request: HttpRequest, rows: QuerySet[Profile]) -> None:
        for profile in rows:
            _switch(request, profile, active=False)

    def switch_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """POST `active`=1 or 0."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        profile = get_object_or_404(Profile, pk=pk)
        if not self.has_change_permission(request, profile):
            raise PermissionDenied
        _switch(request, profile, active=request.POST.get("active") == "1")
        return HttpResponseRedirect(reverse("admin:models_registry_profile_change", args=[pk]))


def _switch(request: HttpRequest, profile: Profile, *, active: bool) -> None:
    word = "on" if active else "off"
    names = profiles.only_by(profile)
    if not profiles.switch(profile, active=active, reason=f"switched {'on' if active else 'off'}"):
        messages.info(
            request, _("%(name)s was %(word)s already.") % {"name": profile.name, "word": word}
        )
        return
    if not names:
        effect = _("no preset is switched by it")
    elif active:
        effect = _("offered again: %(names)s") % {"names": listed(names)}
    else:
        effect = _("no longer offered: %(names)s. What runs of them ends when it has answered") % {
            "names": listed(names)
        }
    messages.success(
        request,
        _("%(name)s is %(word)s; %(effect)s.")
        % {"name": profile.name, "word": word, "effect": effect},
    )


def listed(names: list[str]) -> str:
    """The first ones, and how many more."""
    more = len(names) - _NAMES_TOLD
    return ", ".join(names[:_NAMES_TOLD]) + (
        _(" and %(more)s more") % {"more": more} if more > 0 else ""
    )


@admin.register(GlobalPreset)
class GlobalPresetAdmin(HistoryAdmin):
    """One row: its list is its page."""

    fields = ["options", "from_file"]
    readonly_fields = ["from_file"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """It is nothing but engine options, for all presets: see models_registry.restricted."""
        return may_do_everything(request) and super().has_change_permission(request, obj)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        row = the_global_preset()
        return HttpResponseRedirect(
            reverse("admin:models_registry_globalpreset_change", args=[row.pk])
        )

    @admin.display(description=gettext_lazy("presets file"))
    def from_file(self, row: GlobalPreset) -> str:
        lines = (f"{key} = {value}" for key, value in row.file_options.items())
        return "\n".join(lines) or _("says nothing of it")

    def before_going_back(self, request: HttpRequest, live: Any, record: history.Record) -> None:
        if live is None:
            raise ValidationError(_("The global preset is never deleted."))
