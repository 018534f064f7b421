"""Actions of the presets' list that are more than one question to the scheduler."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminSelect2MultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from models_registry.admin.asking import Told
from models_registry.admin.base import CorralAdmin
from models_registry.cloning import clone
from models_registry.models import Group, Preset, Profile
from models_registry.options.policy_keys import LONGEST_TAGS, tag_words
from models_registry.organising import Wishes, organise

MOST_CLONES = 100
"""By one action: more than that is a slip."""

_LEAVE, _NONE = "", "-"


class OrganiseForm(forms.Form):
    """`profiles` False: this person may not change them."""

    add_tags = forms.CharField(
        label=gettext_lazy("Add tags"),
        required=False,
        max_length=LONGEST_TAGS,
        widget=UnfoldAdminTextInputWidget,
    )
    remove_tags = forms.CharField(
        label=gettext_lazy("Remove tags"),
        required=False,
        max_length=LONGEST_TAGS,
        widget=UnfoldAdminTextInputWidget,
    )
    group = forms.ChoiceField(
        label=gettext_lazy("Group"), required=False, widget=UnfoldAdminSelectWidget
    )
    add_to = forms.ModelMultipleChoiceField(
        Profile.objects.all(),
        required=False,
        label=gettext_lazy("Add to profiles"),
        widget=UnfoldAdminSelect2MultipleWidget,
    )
    remove_from = forms.ModelMultipleChoiceField(
        Profile.objects.all(),
        required=False,
        label=gettext_lazy("Remove from profiles"),
        widget=UnfoldAdminSelect2MultipleWidget,
    )

    def __init__(self, *args: Any, profiles: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = Group.objects.values_list("pk", "name")
        names = [(str(pk), name) for pk, name in groups]
        field: Any = self.fields["group"]
        field.choices = [(_LEAVE, _("leave as it is")), (_NONE, _("no group")), *names]
        if not profiles:
            del self.fields["add_to"], self.fields["remove_from"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not any(cleaned.values()):
            raise ValidationError(_("Nothing is to change: fill in a field, or go back."))
        return cleaned

    def wishes(self) -> Wishes:
        cleaned = self.cleaned_data
        group = cleaned["group"]
        return Wishes(
            add_tags=tag_words(cleaned["add_tags"]),
            remove_tags=tag_words(cleaned["remove_tags"]),
            regroup=group != _LEAVE,
            group=None if group in (_LEAVE, _NONE) else Group.objects.filter(pk=group).first(),
            add_to=list(cleaned.get("add_to", ())),
            remove_from=list(cleaned.get("remove_from", ())),
        )


def organise_selected(
    model_admin: CorralAdmin, request: HttpRequest, presets: QuerySet[Preset]
) -> HttpResponse | None:
    """A page that asks what is to change, and then the change."""
    profiles = request.user.has_perm("models_registry.change_profile")
    sent = request.POST if "organise" in request.POST else None
    form = OrganiseForm(sent, profiles=profiles)
    if form.is_valid():
        try:
            count = organise(presets, form.wishes(), reason="tags, group and profiles of several")
        except ValidationError as error:
            form.add_error(None, error)
        else:
            messages.success(request, _("%(count)s presets were changed.") % {"count": count})
            return None
    across = request.POST.get("select_across") == "1"
    keys = [str(pk) for pk in presets.values_list("pk", flat=True)]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": _("Change tags, group and profiles"),
        "opts": model_admin.opts,
        "form": form,
        "presets": [preset.name for preset in presets[:20]],
        "more": max(0, len(keys) - 20),
        "count": len(keys),
        "checkbox": ACTION_CHECKBOX_NAME,
        "across": across,
        # All of a list are named by the list itself: no form takes a thousand fields.
        "keys": keys[:1] if across else keys,
    }
    return TemplateResponse(request, "admin/models_registry/preset/organise.html", context)


def clone_selected(
    model_admin: CorralAdmin, request: HttpRequest, presets: QuerySet[Preset]
) -> None:
    if not model_admin.has_add_permission(request):
        raise PermissionDenied
    if presets.count() > MOST_CLONES:
        messages.error(
            request,
            _("At most %(MOST_CLONES)s presets are cloned at once.") % {"MOST_CLONES": MOST_CLONES},
        )
        return
    told = Told()
    for preset in presets:
        try:
            copy = clone(preset, reason=f"a clone of {preset.name}")
        except ValidationError as error:
            told.add(
                messages.ERROR,
                _("%(name)s cannot be cloned: %(join)s")
                % {"name": preset.name, "join": " ".join(error.messages)},
            )
        else:
            told.add(messages.SUCCESS, _("%(name)s was made.") % {"name": copy.name})
    told.send(request)
