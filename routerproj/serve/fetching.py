"""The model that `-hf` or `-mu` names: offered when it is there, else fetched and then loaded."""

from __future__ import annotations

from models_registry.downloads import asking, targets
from models_registry.downloads.choosing import MMPROJ
from models_registry.errors import ManagementRefused, NotRegistered
from models_registry.models import Alias, Download, Preset
from models_registry.validation import file_problem
from routerproj.serve.options import BadOption, ServeOptions

ASKED_BY = "serve's command line"


def wanted(options: ServeOptions) -> tuple[str, str]:
    """(kind, target) of a download; empty when none is named. Raises BadOption."""
    named = [option for option in (options.model, options.hf_repo, options.model_url) if option]
    if len(named) > 1:
        raise BadOption("name one model on the command line: with -m, with -hf or with -mu")
    if options.hf_file and not options.hf_repo:
        raise BadOption(f"-hff {options.hf_file}: name the repository with -hf as well")
    kind, target = "", ""
    if options.hf_repo:
        kind, target = str(Download.Kind.HUB), options.hf_repo
        if options.hf_file:
            target = f"{target.partition(':')[0]}:{options.hf_file}"
    elif options.model_url:
        kind, target = str(Download.Kind.URL), options.model_url
    if kind:
        try:
            targets.parse(kind, target)
        except targets.BadTarget as error:
            raise BadOption(f"{'-hf' if options.hf_repo else '-mu'} {target}: {error}") from error
    return kind, target


def offer_or_fetch(kind: str, target: str) -> tuple[str, str]:
    """A line for people, and the preset to load now; empty while it is fetched. Raises
    NotRegistered."""
    name = _there(targets.parse(kind, target))
    if name:
        return f"{target} is offered as {name}", name
    try:
        row = asking.create(kind, target, sidecars=(MMPROJ,), load=True, asked_by=ASKED_BY)
    except ManagementRefused as refused:
        unfinished = Download.objects.filter(state__in=Download.UNFINISHED, revision="")
        earlier = unfinished.filter(kind=kind, target=target).first()
        if earlier is None:
            raise NotRegistered(refused.message) from refused
        earlier.load = True
        earlier.save(update_fields=["load"])
        if earlier.state == Download.State.PAUSED:
            asking.resume(earlier.pk)
        return f"{target} is fetched as download {earlier.pk}, begun by an earlier start", ""
    return f"{target} is fetched as download {row.pk}, and loaded when it is there", ""


def _there(target: targets.Target) -> str:
    """The name of a preset that runs it, if its file can be read."""
    name = target.name
    if isinstance(target, targets.HubTarget):
        if target.file:
            return ""  # its download finds what is in the cache
        name = f"{target.repo}:{target.tag.upper()}" if target.tag else target.repo
    alias = Alias.objects.select_related("preset__model_file").filter(name=name).first()
    preset = (
        alias.preset
        if alias is not None
        else Preset.objects.select_related("model_file").filter(name=name).first()
    )
    return preset.name if preset and not file_problem(preset.model_path) else ""
