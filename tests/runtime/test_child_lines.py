"""What a child says, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.runtime.child_lines import PREFIX, ChildState, NotUnderstood, Report, parse

# Captured from llama-server (llama-cpp-python 0.3.36).
LOADING = (
    b'cmd_child_to_router:state:{"state":"loading","payload":'
    b'{"stages":["text_model"],"current":"text_model","value":0.5}}'
)
READY = (
    b'cmd_child_to_router:state:{"state":"ready","payload":{"id":"foo","aliases":["foo"],"tags":[],'
    b'"object":"model","created":1796001094,"owned_by":"llamacpp","meta":{"vocab_type":2,'
    b'"n_vocab":49152,"n_ctx":2048,"n_ctx_train":8192,"n_embd":576,"n_params":134515008,'
    b'"size":96576768,"ftype":"Q4_1"}}}'
)
SLEEPING = b'cmd_child_to_router:state:{"state":"sleeping","payload":{}}'


def test_loading_is_heard_with_its_progress():
    payload = {"stages": ["text_model"], "current": "text_model", "value": 0.5}
    assert parse(LOADING) == Report(ChildState.LOADING, payload)


def test_ready_is_heard_with_what_the_model_is():
    report = parse(READY)
    assert report.state is ChildState.READY
    assert report.payload["meta"]["n_ctx"] == 2048


def test_sleeping_is_heard():
    assert parse(SLEEPING) == Report(ChildState.SLEEPING, {})


def test_a_report_may_end_in_a_carriage_return():
    assert parse(SLEEPING + b"\r") == Report(ChildState.SLEEPING, {})


@pytest.mark.parametrize(
    "line", [b"", b"0.00.397.525 I srv  llama_server: model loaded", b"\xff\xfe", b"ready"]
)
def test_an_ordinary_line_is_no_report(line):
    assert parse(line) is None


def test_a_log_line_that_quotes_a_report_is_no_report():
    assert parse(b"prompt: " + READY) is None


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"weather:{}",
        b"state:",
        b"state:{",
        b"state:[]",
        b"state:7",
        b'state:"ready"',
        b"state:{}",
        b'state:{"state":7}',
        b'state:{"state":null}',
        b'state:{"state":"dreaming","payload":{}}',
        b'state:{"state":["ready"]}',
        b'state:{"state":"ready","payload":' + b"[" * 100_000,
        b'state:{"state":"\xff"}',
    ],
)
def test_what_is_not_understood_is_said_to_be_so(rest):
    assert isinstance(parse(PREFIX + rest), NotUnderstood)


@pytest.mark.parametrize("payload", [b"null", b"7", b"[1]", b'"text"'])
def test_a_payload_that_is_no_object_is_an_empty_one(payload):
    line = PREFIX + b'state:{"state":"ready","payload":' + payload + b"}"
    assert parse(line) == Report(ChildState.READY, {})


def test_a_report_without_a_payload_counts():
    assert parse(PREFIX + b'state:{"state":"ready"}') == Report(ChildState.READY, {})


@given(st.binary())
def test_nothing_that_a_child_prints_is_an_error(line):
    parse(line)
    parse(PREFIX + line)
    parse(PREFIX + b"state:" + line)
