"""A client may leave at any moment; the lease ends when the child's slot is idle, not before."""

from __future__ import annotations

import asyncio

from proxy.upstream import LONGEST_WHOLE

from .asking import Exchange, chat, until
from .fakes import Connection, Received


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing should reach the child")


async def test_leaving_while_the_body_arrives_asks_for_nothing(house):
    async with house(never_asked) as h:
        exchange = Exchange(h.app)
        exchange.give(b'{"model":', more=True)
        exchange.leave()
        await exchange.end()

    assert not h.scheduler.asked
    assert not exchange.messages


async def test_leaving_the_queue_leaves_it_at_once(house):
    async with house(never_asked) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=chat())
        await until(lambda: h.scheduler.waiting == 1)
        exchange.leave()
        await exchange.end()

        assert h.scheduler.waiting == 0
        assert not h.scheduler.leases
        assert not exchange.messages


async def test_a_stream_left_before_its_first_byte_is_closed_at_that_byte(house):
    prompt_read = asyncio.Event()
    closed = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await prompt_read.wait()
        await child.begin("text/event-stream")
        await child.say(b"data: {}\n\n")
        await child.until_closed()
        closed.set()

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await h.child.arrived.wait()
        exchange.leave()
        await exchange.end()
        lease = h.scheduler.leases[0]
        assert (lease.abandoned, lease.released) == (True, False)

        prompt_read.set()
        async with asyncio.timeout(30):
            await closed.wait()
        await h.scheduler.until_all_released()

    assert not exchange.messages


async def test_an_answer_that_is_not_streamed_is_read_to_its_end_for_nobody(house):
    answered = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await answered.wait()
        await child.answer(b'{"usage":{"prompt_tokens":9,"completion_tokens":2}}')

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat())
        await h.child.arrived.wait()
        exchange.leave()
        await exchange.end()
        lease = h.scheduler.leases[0]
        assert (lease.abandoned, lease.released) == (True, False)

        answered.set()
        await h.scheduler.until_all_released()

    assert lease.tokens == (9, None, 2)
    assert not exchange.messages


async def test_leaving_a_begun_stream_closes_it_and_frees_the_slot(house):
    closed = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin("text/event-stream")
        await child.say(b"data: {}\n\n")
        await child.until_closed()
        closed.set()

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat(stream=True))
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        await h.scheduler.until_all_released()
        async with asyncio.timeout(30):
            await closed.wait()

    assert not h.scheduler.leases[0].abandoned
    assert not exchange.ended_well


async def test_leaving_a_half_sent_whole_answer_reads_the_rest_for_nobody(house):
    go_on = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await child.begin_whole(length=LONGEST_WHOLE + 10)
        await child.raw(b"0123456789")
        await go_on.wait()
        await child.raw(b"x" * LONGEST_WHOLE)

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat())
        await until(lambda: exchange.body)
        exchange.leave()
        await exchange.end()
        assert h.scheduler.leases[0].abandoned
        assert h.scheduler.held

        go_on.set()
        await h.scheduler.until_all_released()


async def test_a_server_that_cancels_the_application_leaves_the_lease_abandoned(house):
    """daphne does so ten seconds after its client has gone."""
    answered = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await answered.wait()
        await child.answer(b"{}")

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat())
        await h.child.arrived.wait()
        exchange.task.cancel()
        await asyncio.gather(exchange.task, return_exceptions=True)
        assert exchange.task.cancelled()
        assert h.scheduler.leases[0].abandoned

        answered.set()
        await h.scheduler.until_all_released()


async def test_a_child_that_dies_under_an_abandoned_answer_ends_the_lease(house):
    die = asyncio.Event()

    async def script(received: Received, child: Connection) -> None:
        await die.wait()

    async with house(script) as h:
        exchange = Exchange(h.app, body=chat())
        await h.child.arrived.wait()
        exchange.leave()
        await exchange.end()
        die.set()
        await h.scheduler.until_all_released()

    assert len(h.scheduler.leases) == 1
