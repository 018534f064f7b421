"""`serve`'s command line. Pure.

argparse is of no use here: it would read llama-server's `-mg 0` as `-m g`, and options that only
the engine knows have to be told from values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.runtime.devices.limits import parse_margins


class BadOption(Exception):
    """The command line cannot be served; the message names the option."""


class HelpWanted(Exception):
    """--help was given."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `serve` was asked for; where the command line says nothing, what the environment said.

    `engine` is the rest: options for llama-server, as they were written.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    ollama_port: int | None = None
    server: str = "uvicorn"
    web_workers: int = 1
    drain_timeout_seconds: float = 30.0
    no_auth: bool = False
    api_keys: tuple[str, ...] = ()
    api_key_file: str = ""
    cors_origins: tuple[str, ...] = ()
    models_dir: str = ""
    hf_cache: str = ""
    ollama_models: str = ""
    models_preset: str = ""
    models_max: int = 4
    models_autoload: bool = True
    models_memory_margin: str = ""
    model: str = ""
    hf_repo: str = ""
    hf_file: str = ""
    model_url: str = ""
    engine: tuple[str, ...] = field(default=())


def _text(option: str, value: str) -> str:
    if not value:
        raise BadOption(f"{option} needs a value")
    return value


def _whole(least: int, most: int | None = None) -> Callable[[str, str], int]:
    def convert(option: str, value: str) -> int:
        wanted = f"a whole number from {least}" + ("" if most is None else f" to {most}")
        if not value.isascii() or not value.isdigit():
            raise BadOption(f"{option} {value}: {wanted} is wanted")
        number = int(value)
        if number < least or (most is not None and number > most):
            raise BadOption(f"{option} {value}: {wanted} is wanted")
        return number

    return convert


def _seconds(option: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 86400:
        raise BadOption(f"{option} {value}: a number of seconds is wanted")
    return number


def _list(option: str, value: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in value.split(",") if word.strip())
    if not found:
        raise BadOption(f"{option} needs a value")
    return found


def _margin(option: str, value: str) -> str:
    try:
        parse_margins(_text(option, value))
    except ValueError as error:
        raise BadOption(f"{option} {value}: {error}") from None
    return value


def _server(option: str, value: str) -> str:
    if value not in ("uvicorn", "daphne"):
        raise BadOption(f"{option} {value}: uvicorn or daphne is wanted")
    return value


WITH_VALUE: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "--host": ("host", _text),
    "--port": ("port", _whole(0, 65535)),
    "--ollama-port": ("ollama_port", _whole(0, 65535)),
    "--server": ("server", _server),
    "--web-workers": ("web_workers", _whole(1, 64)),
    "--drain-timeout": ("drain_timeout_seconds", _seconds),
    "--api-key": ("api_keys", _list),
    "--api-key-file": ("api_key_file", _text),
    "--cors-origins": ("cors_origins", _list),
    "--models-dir": ("models_dir", _text),
    "--ollama-models": ("ollama_models", _text),
    "--models-preset": ("models_preset", _text),
    "--models-max": ("models_max", _whole(0)),
    "--models-memory-margin": ("models_memory_margin", _margin),
    "-m": ("model", _text),
    "--model": ("model", _text),
    "-hf": ("hf_repo", _text),
    "-hfr": ("hf_repo", _text),
    "--hf-repo": ("hf_repo", _text),
    "-hff": ("hf_file", _text),
    "--hf-file": ("hf_file", _text),
    "-mu": ("model_url", _text),
    "--model-url": ("model_url", _text),
}

FLAGS: Mapping[str, tuple[str, Any]] = {
    "--no-auth": ("no_auth", True),
    "--no-hf-cache": ("hf_cache", "0"),
    "--models-autoload": ("models_autoload", True),
    "--no-models-autoload": ("models_autoload", False),
}

_FIXED_CORS = "is not supported: Corral answers GET, POST and DELETE, any header, no credentials"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("-dr", "--docker-repo"),
        "is not supported: Corral fetches from Hugging Face (-hf), from a URL (-mu), and in the "
        "admin from Ollama's registry",
    ),
    **dict.fromkeys(
        ("--cors-methods", "--cors-headers", "--cors-credentials", "--no-cors-credentials"),
        _FIXED_CORS,
    ),
    "--reuse-port": "is not supported: --web-workers N shares one socket",
}

USAGE = """\
usage: manage.py serve [options] [llama-server options]

Serves the gateway and the admin; starts and watches the scheduler, web and jobs processes.

  --host HOST             address to listen on (127.0.0.1)           LLAMA_ARG_HOST
  --port PORT             port to listen on, 0: any free one (8080)  LLAMA_ARG_PORT
  --ollama-port PORT      a second port, for clients of Ollama, who  CORRAL_OLLAMA_PORT
                          look for one at 11434 (none)
  --models-dir PATH       folder whose .gguf files are offered       LLAMA_ARG_MODELS_DIR
  --models-preset FILE    llama.cpp's INI file of presets, watched   LLAMA_ARG_MODELS_PRESET
  --no-hf-cache           leave the Hugging Face cache out           CORRAL_HF_CACHE=0
  --ollama-models PATH    offer what Ollama has pulled, too; auto:   CORRAL_OLLAMA_MODELS
                          from where Ollama keeps it
  --models-max N          models loaded at once, 0: no limit (4)     LLAMA_ARG_MODELS_MAX
  --models-memory-margin N
                          MiB that stay free on each device: 1024,   LLAMA_ARG_MODELS_MEMORY_MARGIN
                          of the host a sixteenth
  --models-autoload, --no-models-autoload
                          load a model when it is asked for (yes)    LLAMA_ARG_MODELS_AUTOLOAD
  -m, --model PATH        offer this file too, and load it
  -hf, --hf-repo USER/REPO[:QUANT]
                          the same of Hugging Face; fetched first where it is not in the cache
  -hff, --hf-file FILE    this file of that repository
  -mu, --model-url URL    the same of a URL (docs/downloads.md says which hosts)
  --api-key KEYS          further keys, separated by commas; other   LLAMA_API_KEY
                          accounts see them in the process list: the
                          variable and the file are not seen there
  --api-key-file PATH     the same, one a line
  --cors-origins ORIGINS  pages that may call the gateway (none)     LLAMA_ARG_CORS_ORIGINS
  --no-auth               ask for no key; on a loopback address only
  --server NAME           uvicorn or daphne (uvicorn)                CORRAL_SERVER
  --web-workers N         web processes on the one socket (1)        CORRAL_WEB_WORKERS
  --drain-timeout SECONDS how long answers may go on at a stop (30)  CORRAL_DRAIN_TIMEOUT

Any other option of llama-server (-c 4096, -ngl 99, ...) applies to every model, above its preset.
State lives in CORRAL_VAR (./var). CORRAL_DEMO=0: a first run registers no demo model.
"""


def parse(tokens: Sequence[str], defaults: ServeOptions) -> ServeOptions:
    """Raises BadOption, naming the option, or HelpWanted."""
    found: dict[str, Any] = {}
    engine: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        name, equals, value = token.partition("=") if token.startswith("--") else (token, "", "")
        if name in ("-h", "--help", "--usage"):
            raise HelpWanted
        if name in REFUSED:
            raise BadOption(f"{name} {REFUSED[name]}")
        if name in FLAGS:
            _take_flag(found, name, equals)
        elif name in WITH_VALUE:
            if not equals and not rest:
                raise BadOption(f"{name} needs a value")
            attribute, convert = WITH_VALUE[name]
            found[attribute] = convert(name, value if equals else rest.pop(0))
        else:
            engine.append(token)
    return replace(defaults, engine=tuple(engine), **found)


def _take_flag(found: dict[str, Any], name: str, equals: str) -> None:
    if equals:
        raise BadOption(f"{name} takes no value")
    attribute, value = FLAGS[name]
    found[attribute] = value
