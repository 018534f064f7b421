"""Environment variables of a preset's own: one `NAME=value` a line. Pure.

Whoever may write them tunes the devices and the computation of one model. What would load foreign
code, reach other files, or say again what has a place of its own is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from models_registry.errors import OptionError

MOST_LINES = 64
LONGEST_LINE = 4096

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_OPTION = "it is an option of the engine: set the option itself"
_CODE = "it would make the child load or run other code"
_FILES = "it would let the child read or write other files"
_NETWORK = "it would let the child use the network"
_CORRAL = "it is set by Corral"
_NUMBERS = (
    "devices would have other names in the child than Corral counts their memory by: "
    "choose them by the option `device`"
)

_REFUSED: tuple[tuple[str, str], ...] = (
    (r"LLAMA_ARG_.*|LLAMA_LOG_.*", _OPTION),
    (r"LLAMA_API_KEY", "the child answers nobody but Corral, without a key"),
    (r"LLAMA_CACHE|HF_.*|HUGGING_?FACE.*|XDG_.*|TMPDIR|TEMP|TMP|HOME", _FILES),
    (r"LLAMA_.*|CORRAL_.*|DATABASE_URL|REDIS_URL|DJANGO_.*", _CORRAL),
    (r"CUDA_DEVICE_ORDER|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK|ONEAPI_DEVICE_SELECTOR", _NUMBERS),
    (r"GGML_RPC.*|.*_PROXY|.*_proxy|MODEL_ENDPOINT", _NETWORK),
    (r"LD_.*|DYLD_.*|PATH|PYTHON.*|PERL.*|BASH.*|ENV|IFS|SHELL.*|NODE_.*|GCONV_PATH", _CODE),
    (r"GLIBC_TUNABLES|MALLOC_.*|OPENSSL_.*|GGML_BACKEND_PATH|.*INJECTION.*|.*PRELOAD.*", _CODE),
    (r".*_(LIB|LIBS|LIBRARY|LIBRARIES|LAYERS?|ICD|DRIVERS?|DRIVER_FILES|FILENAMES)", _CODE),
    (r"VK_(INSTANCE_LAYERS|LOADER_.*)|.*_LAYER_PATH|LIBVA_.*|OCL_.*", _CODE),
    (r".*_(PATH|DIR|FILE|FILES|HOME|FOLDER|PATH_RESOURCES)", _FILES),
)

VISIBLE_DEVICES: dict[str, str] = {
    "CUDA_VISIBLE_DEVICES": "CUDA",
    "HIP_VISIBLE_DEVICES": "ROCm",
    "ROCR_VISIBLE_DEVICES": "ROCm",
    "GGML_VK_VISIBLE_DEVICES": "Vulkan",
}
"""Variable to the beginning of the names that the engine gives such devices. They would number the
devices anew, so they are translated to the option `device` (see `chosen_devices`)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One `NAME=value`, where it stands."""

    number: int
    name: str
    value: str


def variables(text: str) -> Iterator[Variable | str]:
    """The variables of `text`, or what is wrong with a line. Empty lines, and those that begin with
    #, say nothing. A value runs to the end of its line, blanks around it left out."""
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name):
            # The line is not quoted: it may hold a secret.
            yield _("Line %(number)s is not `NAME=value`.") % {"number": number}
        elif len(line) > LONGEST_LINE or "\0" in line:
            yield _(
                "Line %(number)s: %(name)s has more than %(LONGEST_LINE)s characters, or a NUL."
            ) % {"number": number, "name": name, "LONGEST_LINE": LONGEST_LINE}
        else:
            yield Variable(number, name, value.strip())


def environment_errors(text: str) -> list[str]:
    """What is wrong with a preset's environment, line by line; never with a value in it."""
    errors: list[str] = []
    seen: dict[str, int] = {}
    for line in variables(text):
        if isinstance(line, str):
            errors.append(line)
        elif why := refused(line.name):
            errors.append(
                _("Line %(number)s: %(name)s is refused: %(why)s.")
                % {"number": line.number, "name": line.name, "why": why}
            )
        elif line.name in seen:
            errors.append(
                _("Line %(number)s: line %(value)s sets %(name)s already.")
                % {"number": line.number, "value": seen[line.name], "name": line.name}
            )
        elif line.name in VISIBLE_DEVICES and _numbers(line.value) is None:
            errors.append(
                _(
                    "Line %(number)s: %(name)s takes numbers with commas between them here, "
                    "as `--list-devices` counts the devices, or -1 for none."
                )
                % {"number": line.number, "name": line.name}
            )
        else:
            seen[line.name] = line.number
    if len(seen) > MOST_LINES:
        errors.append(
            _("At most %(MOST_LINES)s variables can be set here.") % {"MOST_LINES": MOST_LINES}
        )
    return errors


def refused(name: str) -> str:
    """Why nobody may set `name`; empty when it may be set."""
    return next((why for pattern, why in _REFUSED if re.fullmatch(pattern, name)), "")


def environment_of(texts: Iterable[str]) -> dict[str, str]:
    """What `texts` set, a later one above an earlier one. Raises OptionError for a line that forms
    would not have taken."""
    found: dict[str, str] = {}
    for text in texts:
        if errors := environment_errors(text):
            raise OptionError("environment", errors[0].rstrip("."))
        found |= {line.name: line.value for line in variables(text) if isinstance(line, Variable)}
    return found


def chosen_devices(
    environment: Mapping[str, str], devices: Collection[str]
) -> tuple[dict[str, str], str | None]:
    """(the environment without what hides devices, the value of `device` that says the same).

    `devices` are those of the engine, by its names. A variable for a kind that it has none of is
    left as it is: it hides nothing. None when nothing is chosen. Raises OptionError for a number
    that no device has.
    """
    kept = dict(environment)
    chosen: list[str] = []
    said = False
    for variable, kind in VISIBLE_DEVICES.items():
        there = [device for device in devices if re.fullmatch(rf"{kind}[0-9]+", device)]
        if variable not in kept or not there:
            continue
        said = True
        for number in _numbers(kept.pop(variable)) or ():
            if f"{kind}{number}" not in there:
                raise OptionError(
                    variable,
                    _("there is no device %(number)s: %(join)s")
                    % {"number": number, "join": ", ".join(there)},
                )
            chosen.append(f"{kind}{number}")
    if not said:
        return kept, None
    return kept, ",".join(dict.fromkeys(chosen)) or "none"


def _numbers(value: str) -> tuple[int, ...] | None:
    """Those that a variable makes visible: none for an empty one or -1; None for what is no list of
    numbers."""
    if value.strip() in ("", "-1"):
        return ()
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        return None
    return tuple(int(part) for part in parts)
