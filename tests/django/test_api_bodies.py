"""What is sent is taken exactly as it is meant, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models_registry.models import Alias, ModelFile, Preset
from proxy.models import ApiKey
from routerproj.guard import Guard, GuardConfig
from routerproj.wiring import Wiring
from tests.django.asgi_exchange import HOST, Exchange, scope

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ctx_size", "4096"),
        ("ctx_size", 4096.5),
        ("ctx_size", True),
        ("ctx_size", [4096]),
        ("ctx_size", -1),
        ("ctx_size", 2**31),
        ("ctx_size", 10**400),
        ("parallel", 0),
        ("parallel", {"a": 1}),
        ("n_gpu_layers", 99),
        ("n_gpu_layers", "some"),
        ("threads", 0),
        ("flash_attn", "maybe"),
        ("flash_attn", True),
        ("embeddings", "yes"),
        ("embeddings", 1),
        ("pinned", "true"),
        ("pinned", 1),
        ("stop_timeout", "1"),
        ("stop_timeout", -1),
        ("stop_timeout", float("nan")),
        ("stop_timeout", float("inf")),
        ("stop_timeout", True),
        ("cache_type_k", "q99"),
        ("extra_options", ["top-k = 1"]),
        ("extra_options", "no equals sign"),
        ("extra_options", "host = 0.0.0.0"),
        ("extra_options", "no-such-option = 1"),
        ("name", 5),
        ("name", ""),
        ("name", "x" * 201),
        ("name", "a\0b"),
        ("name", "\ud800"),
        ("name", "a/../b"),
        ("model_file", "1"),
        ("model_file", 0),
        ("model_file", 2**70),
        ("version", "1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_at_its_field(manager, preset, field, value):
    before = Preset.objects.values().get()

    answer = manager.patch(PATH, {field: value})

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    assert Preset.objects.values().get() == before


@pytest.mark.parametrize(
    ("path", "body", "extra"),
    [
        (PATH, {}, {"id": 7}),
        (PATH, {}, {"source": "demo"}),
        (PATH, {}, {"aliases": ["a"]}),
        (PATH, {}, {"model_path": "/etc/passwd"}),
        (PATH, {}, {"model_file_id": 1}),
        ("/presets", {"name": "b", "model_file": 1}, {"version": 9}),
        ("/presets", {"name": "b", "model_file": 1}, {"source": "models_dir"}),
        ("/models", {"path": "/a.gguf"}, {"size": 1}),
        ("/models", {"path": "/a.gguf"}, {"source": "demo"}),
        ("/aliases", {"name": "a", "preset": "b"}, {"id": 1}),
        ("/keys", {"name": "a"}, {"digest": "0" * 64}),
        ("/keys", {"name": "a"}, {"public_id": "aaaaaaaa"}),
        ("/keys", {"name": "a"}, {"revoked_at": None}),
        ("/teams", {"name": "a"}, {"id": 1}),
    ],
)
def test_a_field_that_is_not_for_them_is_refused_by_name(manager, preset, path, body, extra):
    rows = [model.objects.count() for model in (Preset, ModelFile, Alias, ApiKey)]

    answer = manager.ask("PATCH" if path == PATH else "POST", path, body | extra)

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", *extra)
    assert [model.objects.count() for model in (Preset, ModelFile, Alias, ApiKey)] == rows


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (PATH, "extra_options"),
        (PATH, "name"),
        ("/teams", "name"),
        ("/keys", "name"),
        ("/models", "mmproj"),
        ("/aliases", "preset"),
    ],
)
def test_no_text_holds_the_character_nul(manager, preset, path, field):
    """PostgreSQL would fail on it, and so would the start of the child."""
    body = {"name": "a", "path": "/a", "preset": "a"}
    own = {"/keys": ["name"], "/teams": ["name"], "/models": ["path"], "/aliases": list(body)[::2]}
    sent = {key: body[key] for key in own.get(path, [])} | {field: "# a\0b"}

    answer = manager.ask("PATCH" if path == PATH else "POST", path, sent)

    assert (answer.status, answer.param) == (422, field)


def test_no_filter_holds_the_character_nul(manager, preset):
    for path, field in (("/presets", "search"), ("/keys", "team"), ("/record/decisions", "kind")):
        assert manager.get(f"{path}?{field}=a%00b").param == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("environment", "A=\udfff"),
        ("name", "a\ud800"),
        ("extra_options", "temp = \udfff"),
        ("request_set", {"stop": ["\ud800"]}),
        ("request_defaults", {"x": {"\udfff": 1}}),
    ],
)
def test_no_text_holds_half_a_surrogate_pair(manager, preset, field, value):
    refused = manager.patch(PATH, {field: value})

    assert (refused.status, refused.param) == (422, field)
    assert "surrogate" in refused.message


def test_every_fault_is_named_at_once(manager, preset):
    answer = manager.patch(PATH, {"ctx_size": "x", "parallel": 0, "colour": 1})

    assert all(field in answer.message for field in ("ctx_size", "parallel", "colour"))


def test_what_was_sent_is_not_repeated_in_a_refusal(manager, preset):
    secret = "sk-" + "s" * 30
    answer = manager.patch(PATH, {"ctx_size": secret, "pinned": secret})

    assert secret not in answer.text


@pytest.mark.parametrize("body", [b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_not_json_is_refused(manager, preset, body):
    answer = manager.ask("PATCH", PATH, body)

    assert (answer.status, answer.code) == (400, "invalid_json")


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"null", b"5"])
def test_json_that_is_no_object_is_refused(manager, preset, body):
    answer = manager.ask("PATCH", PATH, body)

    assert (answer.status, answer.code) == (422, "validation_failed")


def test_long_options_are_refused_at_their_field(manager, preset):
    answer = manager.patch(PATH, {"extra_options": "# " + "x" * (64 << 10)})

    assert (answer.status, answer.param) == (422, "extra_options")


def test_ten_megabytes_are_refused(manager, preset):
    answer = manager.patch(PATH, {"extra_options": "x" * 10_000_000})

    assert (answer.status, answer.code) == (413, "body_too_large")


@pytest.mark.parametrize("declared", [True, False])
async def test_the_guard_stops_a_large_body_before_django_keeps_it(declared):
    async def never(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    guard = Guard(never, GuardConfig(1 << 30, 30.0, max_form=1000), lambda path: False)
    parts = (b"x" * 600, b"x" * 600)
    length = [(b"content-length", b"1200")] if declared else []
    exchange = Exchange(*parts, leaves=True)
    asked = scope(b"/router/api/presets", [*HOST, *length], "POST")
    await guard(asked, exchange.receive, exchange.send)

    assert (exchange.status, exchange.code) == (413, "body_too_large")
    assert exchange.read == (0 if declared else 2)


async def test_the_gateways_own_limit_is_not_lowered_by_it():
    async def reads(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guard = Guard(reads, GuardConfig(2000, 30.0, max_form=1000), lambda path: True)
    exchange = Exchange(b"x" * 1200)
    await guard(scope(b"/v1/chat/completions", method="POST"), exchange.receive, exchange.send)

    assert exchange.status == 200


def test_the_guard_is_told_the_limit_of_forms(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4321

    assert Wiring.from_settings().application._form_config.max_body == 4321


@pytest.mark.parametrize("path", ["/router/api/presets/", "/router/api/aliases/"])
async def test_a_name_may_come_with_its_slash_encoded(path):
    async def answers(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guard = Guard(answers, GuardConfig(100, 30.0), lambda path: False)
    good, bad = Exchange(), Exchange()
    await guard(scope(path.encode() + b"user%2Frepo%3AQ4"), good.receive, good.send)
    await guard(scope(path.encode() + b"..%2F..%2Fadmin"), bad.receive, bad.send)

    assert (good.status, bad.status) == (200, 400)


def test_a_path_that_is_not_a_readable_file_is_refused(manager, tmp_path: Path):
    for path in (
        "relative.gguf",
        "/no/such.gguf",
        str(tmp_path),
        "/a\0b",
        "/etc/\ud800",
        "x" * 2000,
    ):
        answer = manager.post("/models", {"path": path})

        assert (answer.status, answer.param) == (422, "path"), json.dumps(path)
