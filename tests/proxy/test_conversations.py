"""Conversations: streams that go on when their client has lost its connection (DESIGN §7)."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.protocol import Refused

from .asking import Exchange, chat, until
from .fakes import Connection, Received

EVENT = b'data: {"choices":[]}\n\n'
USAGE = b'data: {"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
ID = (b"x-conversation-id", b"talk::tiny")


def ask(app, path: str = "/v1/chat/completions", *headers: tuple[bytes, bytes], **fields):
    return Exchange(app, path, body=chat(stream=True, **fields), headers=headers or [ID])


async def whole(received: Received, child: Connection) -> None:
    await child.begin("text/event-stream")
    for part in (EVENT, USAGE, DONE):
        await child.say(part)
    await child.finish()


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing should reach the child")


class Pausing:
    """A child that begins a stream, and goes on when it is told."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.said_all = asyncio.Event()

    async def __call__(self, received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(EVENT)
        await self.go_on.wait()
        for part in (USAGE, DONE):
            await child.say(part)
        await child.finish()
        self.said_all.set()


async def test_a_conversation_is_carried_like_any_other_stream(house):
    async with house(whole) as h:
        exchange = await ask(h.app).end()
        await h.scheduler.until_all_released()
        [conversation], [received] = h.scheduler.conversations, h.child.received

    assert (exchange.status, exchange.body) == (200, EVENT + USAGE + DONE)
    assert exchange.ended_well
    assert (conversation.owner, conversation.id) == ("", "talk::tiny")
    assert received.header("x-conversation-id") == "key-0"
    assert h.scheduler.leases[0].tokens == (9, None, 2)
    assert h.scheduler.was_seen == [("", "talk::tiny", "key-0")]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"stream": False}),
        ("/v1/chat/completions", {"stream": None}),
        ("/v1/chat/completions", {"stream": "yes"}),
        ("/infill", {"stream": True}),
        ("/v1/embeddings", {"stream": True}),
    ],
)
async def test_what_llama_server_keeps_no_stream_of_is_carried_as_if_it_had_no_id(
    house, path, fields
):
    async with house(whole) as h:
        await Exchange(h.app, path, body=chat(**fields), headers=[ID]).end()

    assert h.scheduler.conversations == []
    assert h.child.received[0].header("x-conversation-id") is None


@pytest.mark.parametrize("id", [b"x" * 257, b"\xff", b"a\tb"])
async def test_an_id_that_is_none_is_refused(house, id):
    async with house(never_asked) as h:
        exchange = await ask(h.app, "/v1/chat/completions", (b"x-conversation-id", id)).end()

    assert exchange.status == 400
    assert "X-Conversation-Id" in exchange.json["error"]["message"]


async def test_a_stream_goes_on_when_its_client_has_gone_and_its_lease_lasts_to_the_end(house):
    child = Pausing()
    async with house(child) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        assert h.scheduler.held

        child.go_on.set()
        await h.scheduler.until_all_released()
        lease = h.scheduler.leases[0]

    assert child.said_all.is_set()
    assert (lease.abandoned, lease.unread, lease.tokens) == (False, True, (9, None, 2))
    assert h.scheduler.was_seen == []
    assert exchange.body == EVENT


async def test_who_waits_when_its_client_goes_waits_on_detached_and_is_carried(house):
    async with house(whole) as h:
        h.scheduler.open.clear()
        exchange = ask(h.app)
        await until(lambda: h.scheduler.waiting == 1)
        exchange.leave()
        await exchange.end()
        [conversation] = h.scheduler.conversations
        assert conversation.detached
        assert h.scheduler.waiting == 1

        h.scheduler.open.set()
        await until(lambda: h.scheduler.leases)
        await h.scheduler.until_all_released()

    assert len(h.child.received) == 1
    assert h.scheduler.leases[0].unread
    assert h.scheduler.was_seen == []
    assert not exchange.messages


async def test_a_server_that_cancels_the_application_ends_no_conversation(house):
    """daphne does so ten seconds after its client has gone."""
    child = Pausing()
    async with house(child) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        exchange.task.cancel()
        await asyncio.gather(exchange.task, return_exceptions=True)
        child.go_on.set()
        await h.scheduler.until_all_released()

    assert child.said_all.is_set()
    assert h.scheduler.leases[0].unread
    assert h.scheduler.was_seen == []


async def test_a_client_that_does_not_read_is_cut_and_its_stream_goes_on(house):
    child = Pausing()
    async with house(child, slow_reader_timeout_seconds=0.05) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        exchange.reading.clear()
        child.go_on.set()
        with pytest.raises(Exception, match="does not read"):
            await exchange.end()
        await h.scheduler.until_all_released()

    assert child.said_all.is_set()
    assert h.scheduler.leases[0].unread
    assert h.scheduler.was_seen == []


async def test_an_engine_that_keeps_no_streams_is_left_as_by_any_other_client(house):
    closed = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(EVENT)
        await child.until_closed()
        closed.set()

    async with house(script) as h:
        h.scheduler.keeps_streams = False
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        assert h.child.received[0].header("x-conversation-id") is None
        exchange.leave()
        await exchange.end()
        await h.scheduler.until_all_released()
        async with asyncio.timeout(30):
            await closed.wait()


async def test_nothing_is_sent_to_an_engine_that_keeps_no_streams_for_a_client_that_has_gone(house):
    async with house(never_asked) as h:
        h.scheduler.keeps_streams = False
        h.scheduler.open.clear()
        exchange = ask(h.app)
        await until(lambda: h.scheduler.waiting == 1)
        exchange.leave()
        await exchange.end()
        h.scheduler.open.set()
        await until(lambda: h.scheduler.leases)
        await h.scheduler.until_all_released()


async def test_a_stop_while_it_waits_is_told_to_the_client_that_is_still_there(house):
    async with house(never_asked) as h:
        h.scheduler.late_refusal = Refused("request_cancelled", "request cancelled by a stop")
        exchange = await ask(h.app).end()

    assert exchange.status == 400
    assert exchange.json["error"]["code"] == "request_cancelled"


async def test_a_child_that_dies_first_is_replaced_also_for_a_client_that_has_gone(house):
    dying = asyncio.Event()

    async def dies(received: Received, child: Connection) -> None:
        await dying.wait()

    async with house(dies, whole) as h:
        exchange = ask(h.app)
        await h.children[0].arrived.wait()
        exchange.leave()
        await exchange.end()
        dying.set()
        await until(lambda: len(h.scheduler.leases) == 2)
        await h.scheduler.until_all_released()

    assert h.children[1].received[0].header("x-conversation-id") == "key-1"
    assert h.scheduler.leases[1].unread
    assert h.scheduler.was_seen == []


async def test_one_that_exceeds_a_limit_is_stopped_at_the_child(house):
    stopped = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(EVENT)
        await stopped.wait()
        await child.finish()

    async with house(script, between_tokens_timeout_seconds=0.05) as h:
        exchange = await ask(h.app).end()
        assert h.scheduler.stopped == [("", "talk::tiny")]
        assert h.scheduler.held
        stopped.set()
        await h.scheduler.until_all_released()

    assert b"answer_timeout" in exchange.body
    assert DONE not in exchange.body


async def test_a_web_process_that_ends_leaves_the_lease_to_the_scheduler(house):
    child = Pausing()
    async with house(child) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        await h.app.drain(0.05)
        await exchange.end()

        assert b"shutting_down" in exchange.body
        assert [lease.released for lease in h.scheduler.leases] == [False]
        assert h.scheduler.stopped == []


async def test_a_drain_does_not_wait_for_streams_whose_clients_have_gone(house):
    child = Pausing()
    async with house(child) as h:
        exchange = ask(h.app)
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        async with asyncio.timeout(10):
            await h.app.drain(600.0)

        assert h.scheduler.held


async def test_a_drain_refuses_who_waits(house):
    async with house(never_asked) as h:
        h.scheduler.open.clear()
        exchange = ask(h.app)
        await until(lambda: h.scheduler.waiting == 1)
        await h.app.drain(600.0)
        await exchange.end()

    assert exchange.json["error"]["code"] == "shutting_down"
    assert h.scheduler.waiting == 0
