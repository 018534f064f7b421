"""What the environment says to llama-server, looked at once, before anything is served. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue
from models_registry.options.command_line import option_value
from models_registry.options.refused_options import OPERATORS, refusal_message
from routerproj.serve.options import BadOption

PREFIX = "LLAMA_ARG_"

OURS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "HOST",
        "PORT",
        "MODELS_DIR",
        "MODELS_MAX",
        "MODELS_AUTOLOAD",
        "NO_MODELS_AUTOLOAD",
        "MODELS_MEMORY_MARGIN",
        "MODELS_PRESET",
        "CORS_ORIGINS",
    )
)
"""Read by settings.py."""


def warnings_about(environment: Mapping[str, str], catalogue: Catalogue) -> list[str]:
    """A line for each variable that counts for nothing. Raises BadOption for one whose value the
    engine would not take: every model would fail for it."""
    known = dict(catalogue.environment_options())
    told = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in OURS:
            continue
        match = known.get(name)
        if match is None:
            told.append(f"{name} is ignored: llama-server has no such option")
        elif match.option.removed:
            told.append(f"{name} is ignored: {' '.join(match.option.help.split())}")
        elif match.option.key not in OPERATORS and (why := refusal_message(match.option)):
            told.append(f"{name} is ignored: {why}")
        elif not match.negated:  # which counts as set whatever it holds
            _check(name, environment[name], match.option.key, catalogue)
    return told


def _check(name: str, value: str, key: str, catalogue: Catalogue) -> None:
    match = catalogue.find(key)
    assert match is not None
    try:
        option_value(match, value, name)
    except OptionError as error:
        raise BadOption(f"{name}={value}: {error.message}") from error
