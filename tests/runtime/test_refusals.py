"""Every refusal has a code that the wire knows and a text that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.core.sizes import HOST, DeviceId
from scheduler.core.values import Code, Exit, PresetName, Refusal
from scheduler.protocol import ERRORS, retry_after
from scheduler.runtime.exits import describe, exit_of
from scheduler.runtime.refusals import model_not_loaded, refused

CRASH = Exit(signal=11, words="GGML_ASSERT failed")


@pytest.mark.parametrize("code", list(Code))
def test_every_code_of_the_core_stands_in_the_wires_table(code):
    refusal = refused(Refusal(code, 3.0, CRASH, (PresetName("p"),)), "a", ["x"])

    assert refusal.code in ERRORS
    assert refusal.message
    assert refusal.retry_after_seconds == 3.0


@pytest.mark.parametrize(
    "code", [Code.MODEL_LOAD_FAILED, Code.MODEL_BACKING_OFF, Code.OUT_OF_MEMORY]
)
def test_a_failed_load_names_the_model_the_end_the_words_and_the_wait(code):
    message = refused(Refusal(code, 3.4, CRASH), "a").message

    for part in ("'a'", "SIGSEGV", "GGML_ASSERT failed", "4 s"):
        assert part in message


def test_what_ran_out_of_memory_says_what_it_was_to_have():
    refusal = Refusal(Code.OUT_OF_MEMORY, granted=((DeviceId("CUDA0"), 1_500 << 20),))

    assert "(it was granted 1,500 MiB on CUDA0)" in refused(refusal, "a").message


@pytest.mark.parametrize("code", [Code.MODEL_TOO_LARGE, Code.BLOCKED_BY_PINNED])
def test_what_is_missing_is_told_in_mib_for_each_device(code):
    short = ((DeviceId("CUDA0"), 1_500 << 20), (DeviceId("Host"), (300 << 20) - 1))
    message = refused(Refusal(code, short=short), "a").message

    assert "(it lacks 1,500 MiB on CUDA0, 300 MiB on Host)" in message
    assert "smaller context" in message


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [
        (Code.MODEL_TOO_LARGE, 503, False),
        (Code.MODEL_NOT_LOADED, 503, True),
        (Code.MODEL_QUEUE_FULL, 429, True),
        (Code.TENANT_QUEUE_FULL, 429, True),
        (Code.QUEUE_FULL, 503, True),
        (Code.QUEUE_TIMEOUT, 503, True),
    ],
)
def test_a_code_says_whether_waiting_cures_it(code, status, retry):
    kind = refused(Refusal(code), "a").kind

    assert (kind.status, kind.retry) == (status, retry)


def test_a_look_is_not_refused_with_the_code_of_a_gateway_that_loads_nothing():
    assert refused(Refusal(Code.MODEL_NOT_LOADED), "a").code == "model_not_ready"
    assert model_not_loaded("a").code == "model_not_loaded"
    assert ERRORS["model_not_loaded"].status == 400


@pytest.mark.parametrize(
    "code",
    [Code.QUEUE_FULL, Code.MODEL_QUEUE_FULL, Code.TENANT_QUEUE_FULL, Code.QUEUE_TIMEOUT],
)
@pytest.mark.parametrize(("seconds", "told"), [(0.1, "1 s"), (59.2, "60 s"), (60.0, "60 s")])
def test_a_full_queue_says_when_to_come_again_never_too_soon(code, seconds, told):
    message = refused(Refusal(code, seconds), "a").message

    assert "'a'" in message
    assert f"(it may be tried again in {told})" in message
    assert retry_after(seconds) == told.removesuffix(" s")


@pytest.mark.parametrize(("device", "advised"), [("CUDA0", True), ("Host", False)])
def test_fewer_gpu_layers_are_advised_where_a_device_lacks_and_not_where_the_host_does(
    device: str, advised: bool
):
    refusal = Refusal(Code.MODEL_TOO_LARGE, short=((device, 1 << 30),))

    message = refused(refusal, "a").message

    assert ("fewer GPU layers" in message) is advised
    assert ("smaller prompt cache (cache-ram)" in message) is not advised
    assert f"1,024 MiB on {device}" in message


def test_pinned_models_are_named():
    refusal = Refusal(Code.BLOCKED_BY_PINNED, blocked_by=(PresetName("p"), PresetName("q")))
    assert "p, q" in refused(refusal, "a").message


@pytest.mark.parametrize(
    ("of", "advice"),
    [
        ({}, "raise --models-max"),
        ({"short": ((HOST, 1 << 30),)}, "give it a smaller context"),
        ({"apart": True}, "change the groups"),
    ],
)
def test_what_is_pinned_is_got_past_by_what_is_short(of: dict[str, Any], advice: str):
    refusal = Refusal(Code.BLOCKED_BY_PINNED, blocked_by=(PresetName("p"),), **of)

    assert advice in refused(refusal, "a").message


def test_an_unknown_name_lists_a_few_that_are_known():
    message = refused(Refusal(Code.MODEL_NOT_FOUND), "a", [f"m{n}" for n in range(9)]).message

    assert "'m0'" in message
    assert "'m8'" not in message
    assert "4 more" in message


def test_an_empty_registry_is_said_to_be_so():
    assert "registry is empty" in refused(Refusal(Code.MODEL_NOT_FOUND), "a", []).message


@pytest.mark.parametrize(
    ("returncode", "text"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL")]
)
def test_an_exit_is_a_code_or_the_name_of_a_signal(returncode, text):
    assert describe(exit_of(returncode)) == text


def test_a_signal_without_a_name_is_a_number():
    assert describe(exit_of(-35)) == "signal 35"


def test_what_never_ran_has_neither():
    assert describe(Exit(words="no such program")) == "not started"
