"""`serve`'s command line: its own options, the engine's, and what it refuses."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from routerproj.serve.main import keys_of, main, understand
from routerproj.serve.options import BadOption, HelpWanted, ServeOptions, parse
from routerproj.serve.roles import PAGELESS, child_environment, roles

DEFAULTS = ServeOptions()


def test_without_options_the_defaults_stand() -> None:
    assert parse([], DEFAULTS) == DEFAULTS


def test_llama_servers_router_flags_are_taken_by_their_names() -> None:
    options = parse(
        [
            *("--host", "0.0.0.0"),
            *("--port", "0"),
            *("--ollama-port", "11434"),
            *("--models-dir", "models"),
            "--no-hf-cache",
            *("--ollama-models", "auto"),
            *("--models-max", "2"),
            "--no-models-autoload",
            *("--api-key", "one,two"),
            *("--cors-origins", "https://a.example,localhost"),
        ],
        DEFAULTS,
    )

    assert options == ServeOptions(
        host="0.0.0.0",
        port=0,
        ollama_port=11434,
        models_dir="models",
        hf_cache="0",
        ollama_models="auto",
        models_max=2,
        models_autoload=False,
        api_keys=("one", "two"),
        cors_origins=("https://a.example", "localhost"),
    )


def test_our_own_are_taken() -> None:
    tokens = ["--server=daphne", "--web-workers=3", "--drain-timeout", "1.5", "--no-auth"]

    options = parse(tokens, DEFAULTS)

    assert (options.server, options.web_workers) == ("daphne", 3)
    assert (options.drain_timeout_seconds, options.no_auth) == (1.5, True)


def test_the_command_line_is_above_the_environment() -> None:
    defaults = ServeOptions(port=9000, models_autoload=False, api_keys=("env",))

    options = parse(["--models-autoload", "--port", "1"], defaults)

    assert (options.port, options.models_autoload, options.api_keys) == (1, True, ("env",))


def test_the_rest_is_the_engines_in_its_order() -> None:
    tokens = ["-c", "4096", "--port", "1", "-ngl", "99", "-mg", "0", "--temp", "-1", "-m", "a.gguf"]

    options = parse(tokens, DEFAULTS)

    assert options.engine == ("-c", "4096", "-ngl", "99", "-mg", "0", "--temp", "-1")
    assert options.model == "a.gguf"


@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        (["--port"], "--port"),
        (["--port", "x"], "--port"),
        (["--port", "70000"], "--port"),
        (["--port", "-1"], "--port"),
        (["--port", "\u0668"], "--port"),
        (["--host", ""], "--host"),
        (["--web-workers", "0"], "--web-workers"),
        (["--drain-timeout", "nan"], "--drain-timeout"),
        (["--server", "gunicorn"], "--server"),
        (["--no-auth=1"], "--no-auth"),
        (["--api-key", " , "], "--api-key"),
        (["--models-preset"], "--models-preset needs a value"),
        (
            ["--models-memory-margin", "-1"],
            "--models-memory-margin -1: the margin '-1' is negative",
        ),
        (["--models-memory-margin", "CUDA0=1,CUDA0=2"], "--models-memory-margin"),
        (["--models-memory-margin="], "--models-memory-margin needs a value"),
        (["--docker-repo", "ai/model"], "--docker-repo"),
        (["--cors-credentials"], "--cors-credentials"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_name(tokens: list[str], named: str) -> None:
    with pytest.raises(BadOption, match=f"^{named}"):
        parse(tokens, DEFAULTS)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        (["--no-such-option", "1"], "--no-such-option"),
        (["-xyz"], "-xyz"),
        (["--path", "public"], "--path"),
        (["--ssl-key-file", "key.pem"], "--ssl-key-file"),
        (["--ctx-size", "many"], "--ctx-size"),
        (["--no-auth", "--host", "0.0.0.0"], "--no-auth"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_command_says_the_name_of_what_it_refuses(tokens: list[str], named: str) -> None:
    out, err = StringIO(), StringIO()

    code = main(["--port", "0", *tokens], out, err)

    assert (code, out.getvalue()) == (2, "")
    assert named in err.getvalue()


@pytest.mark.parametrize("token", ["-h", "--help"])
def test_help_is_asked_for(token: str) -> None:
    with pytest.raises(HelpWanted):
        parse(["-c", "1", token], DEFAULTS)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_no_auth_is_for_loopback_only(host: str) -> None:
    with pytest.raises(BadOption, match="--no-auth"):
        understand(["--no-auth", "--host", host])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.9"])
def test_no_auth_is_taken_on_loopback(host: str) -> None:
    options, command_line = understand(["--no-auth", "--host", host])

    assert options.no_auth
    assert command_line == {}


def test_a_file_of_keys_is_read_as_llama_server_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nfirst\n\n  second  \n")

    assert keys_of(str(file)) == ("first", "second")


@pytest.mark.parametrize("content", [None, b"", b"# none\n", b"\xff\xfe"])
def test_a_file_without_keys_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(BadOption, match="--api-key-file"):
        keys_of(str(file))


def test_that_serve_shows_no_page_is_nothing_to_the_web_process() -> None:
    told = child_environment({PAGELESS: "1", "PATH": "/bin"}, DEFAULTS, {})

    assert PAGELESS not in told
    assert told["PATH"] == "/bin"


def test_the_processes_see_the_command_line_in_their_environment() -> None:
    tokens = ["--models-max", "0", "--no-models-autoload", "--api-key", "k", "--no-hf-cache"]
    tokens += ["--ollama-port", "11434"]
    options = parse([*tokens, "--ollama-models", "/o"], DEFAULTS)

    environment = child_environment({"PATH": "/bin", "CORRAL_MODELS_MAX": "7"}, options, {"a": "1"})

    assert environment["PATH"] == "/bin"
    assert environment["CORRAL_MODELS_MAX"] == "0"
    assert environment["CORRAL_MODELS_AUTOLOAD"] == "0"
    assert (environment["CORRAL_HF_CACHE"], environment["CORRAL_OLLAMA_MODELS"]) == ("0", "/o")
    assert environment["CORRAL_OLLAMA_PORT"] == "11434"
    assert environment["CORRAL_API_KEYS"] == "k"
    assert environment["CORRAL_COMMAND_LINE"] == '{"a": "1"}'


@pytest.mark.parametrize("margin", ["2048", "0", "CUDA0=512,Host=2048"])
def test_a_margin_on_the_command_line_is_above_the_environments(margin: str) -> None:
    options = parse(["--models-memory-margin", margin], DEFAULTS)

    told = child_environment({"LLAMA_ARG_MODELS_MEMORY_MARGIN": "1"}, options, {})

    assert told["CORRAL_MEMORY_MARGIN"] == margin


def test_only_daphnes_own_process_pays_for_daphne() -> None:
    options = parse(["--server", "daphne", "--web-workers", "2"], DEFAULTS)

    scheduler, web, jobs = roles(Path("manage.py"), options, {}, fds=[3, 4])

    assert [role.name for role in web] == ["web 1", "web 2"]
    assert all(role.env["CORRAL_DAPHNE"] == "1" and role.pass_fds == (3, 4) for role in web)
    assert "CORRAL_DAPHNE" not in scheduler.env
    assert "CORRAL_DAPHNE" not in jobs.env
