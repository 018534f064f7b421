"""Each request that a model works for leaves one record for each try, before its client has seen
the end of the answer."""

from __future__ import annotations

import json

import pytest

from proxy.callers import Caller, Policy
from proxy.usage.record import Record
from scheduler.protocol import Refused, Remote

from .asking import Exchange, chat, until
from .fakes import CRASH, Connection, Received, fake_child

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
TOLD = json.dumps({"choices": [{"message": {"content": "Hi"}}], "usage": USAGE}).encode()
USER = {"role": "user", "content": "Hello"}
DONE = b"data: [DONE]\n\n"


def said(word: str, **more: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": word}}], **more}).encode()


LAST = said("", timings={"prompt_n": 3, "cache_n": 4, "predicted_n": 2}) + b"\n\n"


async def answers(received: Received, child: Connection) -> None:
    await child.answer(TOLD)


async def streams(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    for part in (said("Hel") + b"\n\n", said("lo") + b"\n\n", LAST, DONE):
        await child.say(part)
    await child.finish()


async def dies(received: Received, child: Connection) -> None:
    """Without a word."""


async def breaks_off(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    for word in ("one", "two", "three"):
        await child.say(said(word) + b"\n\n")


async def never_ends(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    await child.say(said("one") + b"\n\n" + said("two") + b"\n\n")
    await child.until_closed()


def only(records: list[Record]) -> Record:
    assert len(records) == 1
    return records[0]


def tokens(record: Record) -> tuple[object, ...]:
    return record.read, record.cached, record.answered, record.estimated


async def test_an_answer_is_recorded_by_what_it_states(house):
    headers = [(b"user-agent", b"curl/8"), (b"x-request-id", b"mine")]
    async with house(answers) as h:
        await Exchange(h.app, body=chat(), headers=headers).end()

    record = only(h.usage.records)
    assert tokens(record) == (9, None, 2, False)
    assert (record.status, record.code, record.charged, record.final) == (200, "", True, True)
    assert (record.request_id, record.team, record.client) == ("mine", "default", "curl/8")
    assert (record.asked, record.preset, record.instance) == ("tiny", "tiny", 0)
    assert (record.path, record.dialect) == ("/v1/chat/completions", "openai")
    assert not record.stream
    assert record.upstream
    assert 0 <= record.queue_wait <= record.first_token <= record.duration


class AnnsKey:
    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        return Caller("blue", "abcdefgh", Policy(team_id=7), user="ann", key_name="bot")

    async def close(self) -> None:
        pass


async def test_a_record_says_whose_request_it_was(house):
    async with house(answers, keys=AnnsKey(), no_auth=False) as h:
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert (record.team, record.team_id, record.key) == ("blue", 7, "abcdefgh")
    assert (record.user, record.key_name) == ("ann", "bot")


async def test_a_stream_is_recorded_by_the_timings_of_its_last_event(house):
    async with house(streams) as h:
        await Exchange(h.app, body=chat(stream=True)).end()

    record = only(h.usage.records)
    assert tokens(record) == (7, 4, 2, False)
    assert record.stream


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("/v1/chat/completions", LAST + DONE),
        ("/v1/messages", b'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
        ("/completion", b'data: {"content":"","stop":true,"timings":{"prompt_n":7}}\n\n'),
        ("/v1/responses", b'event: response.completed\ndata: {"response":{}}\n\n'),
    ],
)
async def test_the_record_is_there_before_the_last_event_is_passed_on(house, path, last):
    go_on = []

    async def says_it_and_waits(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(said("Hi") + b"\n\n")
        await until(lambda: go_on)
        await child.say(last)
        await child.until_closed()

    async with house(says_it_and_waits) as h:
        exchange = Exchange(h.app, path, body=chat(stream=True))
        await until(lambda: b"Hi" in exchange.body)
        exchange.reading.clear()
        go_on.append(True)
        await until(lambda: h.usage.records)

        assert last not in exchange.body
        exchange.reading.set()
        await until(lambda: last in exchange.body)
        exchange.leave()
        await exchange.end()

    assert only(h.usage.records).status == 200


async def test_text_that_looks_like_the_end_is_none(house):
    fake = said('event: response.completed\ndata: [DONE]\n\n "stop":true') + b"\n\n"

    async def pretends(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(fake)
        await child.until_closed()

    async with house(pretends) as h:
        exchange = Exchange(h.app, "/completion", body=chat(stream=True))
        await until(lambda: fake in exchange.body)
        assert not h.usage.records
        exchange.leave()
        await exchange.end()


async def test_a_first_try_that_failed_is_recorded_and_not_charged(house):
    async with house(dies, answers) as h:
        h.scheduler.endings = [CRASH]
        await Exchange(h.app, body=chat()).end()

    first, second = h.usage.records
    assert (first.attempt, first.final, first.charged) == (0, False, False)
    assert (first.status, first.code, first.instance) == (502, "model_died", 0)
    assert tokens(first) == (None, None, None, False)
    assert (second.attempt, second.final, second.charged) == (1, True, True)
    assert second.instance == 1
    assert first.request_id == second.request_id
    assert first.record != second.record


async def test_who_fails_twice_is_recorded_twice_and_never_charged(house):
    async with house(dies, dies) as h:
        h.scheduler.endings = [CRASH, CRASH]
        await Exchange(h.app, body=chat()).end()

    assert [record.charged for record in h.usage.records] == [False, False]
    assert [record.code for record in h.usage.records] == ["model_died", "request_crashes_model"]


async def test_a_cut_answer_is_counted_by_what_was_seen_of_it(house):
    async with house(breaks_off) as h:
        await Exchange(h.app, body=chat(stream=True)).end()

    record = only(h.usage.records)
    assert record.answered == 3
    assert record.read > 0
    assert record.estimated
    assert record.charged
    assert (record.status, record.code) == (200, "model_died")
    assert h.scheduler.leases[0].tokens == (record.read, None, 3)


async def test_a_client_that_leaves_a_stream_pays_for_what_it_has_had(house):
    async with house(never_ends) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: b"two" in exchange.body)
        exchange.leave()
        await exchange.end()
        await h.scheduler.until_all_released()

    record = only(h.usage.records)
    assert (record.status, record.code) == (499, "client_gone")
    assert (record.answered, record.estimated, record.charged) == (2, True, True)
    assert h.scheduler.leases[0].tokens == (record.read, None, 2)


async def test_an_answer_that_is_read_on_for_a_client_that_left_is_counted_exactly(house):
    begun, go_on = [], []

    async def answers_late(received: Received, child: Connection) -> None:
        begun.append(child)
        await until(lambda: go_on)
        await child.answer(TOLD)

    async with house(answers_late) as h:
        exchange = Exchange(h.app, body=chat())
        await until(lambda: begun)
        exchange.leave()
        await exchange.end()
        assert not h.usage.records
        go_on.append(True)
        await h.scheduler.until_all_released()

    record = only(h.usage.records)
    assert tokens(record) == (9, None, 2, False)
    assert (record.status, record.code, record.charged) == (499, "client_gone", True)


async def test_who_leaves_the_queue_has_used_nothing(house):
    async with house(answers) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=chat())
        await until(lambda: h.scheduler.waiting)
        exchange.leave()
        await exchange.end()

    record = only(h.usage.records)
    assert (record.status, record.code, record.upstream) == (499, "client_gone", False)
    assert tokens(record) == (None, None, None, False)
    assert record.queue_wait >= 0
    assert not record.charged


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/chat/completions", 404), ("/completion", 400), ("/api/chat", 404)]
)
async def test_a_refusal_is_recorded_as_its_client_sees_it(house, path, status):
    async with house(answers) as h:
        h.scheduler.refusal = Refused("model_not_found", "there is none")
        exchange = await Exchange(h.app, path, body=chat()).end()

    record = only(h.usage.records)
    assert exchange.status == status
    assert (record.status, record.code) == (status, "model_not_found")
    assert not record.upstream
    assert not record.charged


async def test_a_body_that_is_no_json_is_recorded(house):
    async with house(answers) as h:
        await Exchange(h.app, body=b"{").end()

    assert only(h.usage.records).code == "invalid_json"


async def test_a_childs_own_error_costs_nothing(house):
    async def declines(received: Received, child: Connection) -> None:
        await child.answer(b'{"error":"too long"}', status="400 Bad Request")

    async with house(declines) as h:
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert (record.status, record.code, record.upstream) == (400, "", True)
    assert tokens(record) == (0, 0, 0, False)
    assert not record.charged


async def test_what_takes_no_tokens_has_taken_none(house):
    async def tokenizes(received: Received, child: Connection) -> None:
        await child.answer(b'{"tokens":[1,2,3]}')

    async with house(tokenizes) as h:
        await Exchange(h.app, "/tokenize", body=chat(content="text")).end()

    assert tokens(only(h.usage.records)) == (0, 0, 0, False)


async def test_vectors_are_no_tokens(house):
    async def embeds(received: Received, child: Connection) -> None:
        vectors = [{"embedding": [0.25] * 4000}]
        await child.answer(json.dumps({"data": vectors}).encode())

    async with house(embeds) as h:
        await Exchange(h.app, "/v1/embeddings", body=chat(input="text")).end()

    record = only(h.usage.records)
    assert record.answered == 0
    assert record.estimated


async def test_an_answer_without_figures_is_estimated(house):
    async def tells_nothing(received: Received, child: Connection) -> None:
        await child.answer(b'{"choices":[{"message":{"content":"%s"}}]}' % (b"word " * 100))

    async with house(tells_nothing) as h:
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert record.estimated
    assert record.charged
    assert record.read > 0
    assert 100 < record.answered < 200


@pytest.mark.parametrize(
    "lie",
    [
        {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": 1 << 60, "completion_tokens": 1 << 70},
        {"prompt_tokens": "9", "completion_tokens": "2"},
        {"prompt_tokens": True, "completion_tokens": None},
        {"prompt_tokens": 1e9, "completion_tokens": [2]},
    ],
)
async def test_figures_that_cannot_be_are_none(house, lie):
    async def lies(received: Received, child: Connection) -> None:
        await child.answer(json.dumps({"choices": [], "usage": lie}).encode())

    async with house(lies) as h:
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert record.estimated
    assert 0 < record.read < 100
    assert 0 < record.answered < 100


async def test_no_more_is_cached_than_was_read(house):
    async def lies(received: Received, child: Connection) -> None:
        usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 1000}}
        await child.answer(json.dumps({"usage": usage}).encode())

    async with house(lies) as h:
        await Exchange(h.app, body=chat()).end()

    assert only(h.usage.records).cached == 9


async def test_a_last_event_of_ten_megabytes_is_counted(house):
    text = json.dumps({"__verbose": "x" * (10 << 20), "usage": USAGE}).encode()

    async def says_much(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(said("Hi") + b"\n\n")
        await child.say(b"data: " + text + b"\n\n")
        await child.say(DONE)
        await child.finish()

    async with house(says_much) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert exchange.body.endswith(DONE)
    assert tokens(only(h.usage.records)) == (9, None, 2, False)


async def test_a_packed_answer_is_estimated_by_its_size(house):
    async def packs(received: Received, child: Connection) -> None:
        await child.answer(b"\x1f\x8b" + b"?" * 398, "Content-Encoding: gzip")

    async with house(packs) as h:
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert (record.answered, record.estimated) == (100, True)


async def test_a_journal_that_is_full_refuses_and_records_nothing(house):
    async with house(answers) as h:
        h.usage.refusal = Refused("usage_unavailable", "full", retry_after_seconds=5.0)
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 503
    assert exchange.json["error"]["code"] == "usage_unavailable"
    assert not h.usage.records
    assert not h.scheduler.asked


@pytest.mark.parametrize("path", ["/slots", "/v1/models", "/health"])
async def test_looks_are_not_recorded(house, path):
    async with house(answers) as h:
        await Exchange(h.app, path, method="GET", query=b"model=tiny", body=b"").end()

    assert not h.usage.records


async def test_a_request_in_ollamas_words_is_recorded_before_its_last_line(house):
    async with house(streams) as h:
        exchange = await Exchange(h.app, "/api/chat", body=chat(messages=[USER])).end()

    record = only(h.usage.records)
    assert b'"done":true' in exchange.body
    assert tokens(record) == (7, 4, 2, False)
    assert (record.path, record.dialect, record.asked) == ("/api/chat", "ollama", "tiny")


async def test_a_remote_server_is_recorded_like_a_child(house):
    async with house(answers) as h, fake_child(None, answers) as remote:
        h.scheduler.remotes = [Remote(f"http://{remote.address}")]
        await Exchange(h.app, body=chat()).end()

    record = only(h.usage.records)
    assert tokens(record) == (9, None, 2, False)
    assert record.charged


def usage_event(usage: object = USAGE) -> bytes:
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"


def stands_still(*parts: bytes):
    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        for part in parts:
            await child.say(part)
        await child.finish()

    return script


NULLS = said("Hel", usage=None) + b"\n\n" + said("lo", usage=None) + b"\n\n"


@pytest.mark.parametrize(
    "parts",
    [
        (NULLS, usage_event(), DONE),
        (NULLS + usage_event() + DONE,),
        (NULLS + usage_event()[:20], usage_event()[20:] + DONE[:3], DONE[3:]),
        tuple(bytes([byte]) for byte in NULLS + usage_event() + DONE),
    ],
)
async def test_a_server_that_counts_when_asked_is_asked_and_its_client_sees_nothing_of_it(
    house, parts
):
    async with house(stands_still(*parts)) as h:
        h.scheduler.tells_tokens = False
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert json.loads(h.child.received[0].body)["stream_options"] == {"include_usage": True}
    assert exchange.body == NULLS + DONE
    assert exchange.header(b"x-corral-filters") is None
    assert tokens(only(h.usage.records)) == (9, None, 2, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": False},
        {"stream": True, "stream_options": "odd"},
    ],
)
async def test_who_asks_itself_or_streams_nothing_gets_all_and_is_not_spoken_for(house, fields):
    async with house(stands_still(NULLS, usage_event(), DONE)) as h:
        h.scheduler.tells_tokens = False
        exchange = await Exchange(h.app, body=chat(**fields)).end()

    assert h.child.received[0].body == chat(**fields)
    assert exchange.body == NULLS + usage_event() + DONE


async def test_a_server_that_tells_by_itself_is_not_asked(house):
    async with house(stands_still(NULLS, usage_event(), DONE)) as h:
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert h.child.received[0].body == chat(stream=True)
    assert exchange.body == NULLS + usage_event() + DONE


async def test_nobody_is_asked_who_must_not_be(house):
    async with house(stands_still(NULLS, DONE), usage_ask=False) as h:
        h.scheduler.tells_tokens = False
        await Exchange(h.app, body=chat(stream=True)).end()

    assert h.child.received[0].body == chat(stream=True)


@pytest.mark.parametrize(
    "like_it",
    [
        said("", usage=USAGE) + b"\n\n",
        b'data: {"choices": [], "usage": null}\n\n',
        b'data: {"choices": [], "prompt_filter_results": []}\n\n',
        b': "usage"\n\n',
        said('{"choices": [], "usage": {}}') + b"\n\n",
        b'data: {"usage": {}, "choices": [[[\n\n',
    ],
)
async def test_only_the_one_event_is_left_out(house, like_it):
    async with house(stands_still(like_it, usage_event(), usage_event(), DONE)) as h:
        h.scheduler.tells_tokens = False
        exchange = await Exchange(h.app, body=chat(stream=True)).end()

    assert exchange.body == like_it + usage_event() + DONE


async def test_other_options_of_the_stream_stay_as_they_are(house):
    options = {"chunk_size": 1.50, "include_usage": False}
    async with house(stands_still(NULLS, usage_event(), DONE)) as h:
        h.scheduler.tells_tokens = False
        await Exchange(h.app, body=chat(stream=True, stream_options=options)).end()

    asked = json.loads(h.child.received[0].body)["stream_options"]
    assert asked == {"chunk_size": 1.5, "include_usage": True}


async def test_a_remote_server_that_is_not_there_is_recorded_once_for_each_try(house):
    async with house(answers) as h:
        h.scheduler.remotes = [Remote("http://127.0.0.1:1")]
        exchange = await Exchange(h.app, body=chat()).end()

    assert exchange.status == 503
    assert [record.code for record in h.usage.records] == ["upstream_unavailable"] * 2
    assert [record.final for record in h.usage.records] == [False, True]
    assert not any(record.charged for record in h.usage.records)


async def test_what_is_cut_at_the_stop_is_recorded(house):
    async with house(never_ends) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: b"two" in exchange.body)
        await h.app.drain(0.0)
        await exchange.end()

    record = only(h.usage.records)
    assert (record.status, record.code) == (200, "shutting_down")
    assert (record.answered, record.estimated) == (2, True)


async def test_an_image_in_a_request_whose_answer_is_cut_is_not_counted_by_its_bytes(house):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * 50_000}}
    messages = [{"role": "user", "content": [image]}]
    async with house(never_ends) as h:
        exchange = Exchange(h.app, body=chat(stream=True, messages=messages))
        await until(lambda: exchange.body)
        exchange.leave()
        await until(lambda: h.usage.records)

    record = only(h.usage.records)
    assert record.estimated
    assert 1024 < record.read < 1200
