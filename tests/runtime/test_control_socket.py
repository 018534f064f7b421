"""The control socket's manners: what is malformed hurts nobody, what breaks takes its own along."""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
from dataclasses import replace

import pytest

from models_registry.request_filters import NO_FILTERS, RequestFilters
from scheduler.core.events import Released
from scheduler.core.planner import Planner
from scheduler.core.values import Config
from scheduler.protocol import LINE_LIMIT

from .serving import serving, wired
from .standing_in import preset, steps, until

PING = {"op": "ping", "id": 7}


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        (b"not json", -1, "invalid_request"),
        (b"[1, 2]", -1, "invalid_request"),
        (b"\xff\xfe", -1, "invalid_request"),
        (b"[" * 100_000, -1, "invalid_request"),
        (b'{"op": "ping"}', -1, "invalid_request"),
        (b'{"op": "ping", "id": "one"}', -1, "invalid_request"),
        (b'{"op": "ping", "id": 3, "colour": "red"}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3}', 3, "invalid_request"),
        (b'{"op": "dance", "id": 3}', 3, "unknown_operation"),
        (b'{"op": "release", "id": 3, "lease": 99}', 3, "unknown_lease"),
        (b'{"op": "abandon", "id": 3, "lease": 99}', 3, "unknown_lease"),
        (b'{"op": "load", "id": 3, "preset": "nope"}', 3, "model_not_found"),
        (b'{"op": "unload", "id": 3, "preset": "nope"}', 3, "model_not_found"),
        (b'{"op": "waiters", "id": 3, "preset": "nope"}', 3, "model_not_found"),
        (b'{"op": "waiters", "id": 3, "preset": "a", "limit": 201}', 3, "invalid_request"),
        (b'{"op": "waiters", "id": 3, "preset": "a", "offset": 10001}', 3, "invalid_request"),
        (b'{"op": "explain", "id": 3}', 3, "invalid_request"),
        (b'{"op": "explain", "id": 3, "request": "r", "target": 1}', 3, "invalid_request"),
        (b'{"op": "explain", "id": 3, "request": "nope"}', 3, "not_found"),
        (b'{"op": "explain", "id": 3, "target": 99}', 3, "not_found"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "weight": 0}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "weight": -1}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "weight": 1e9}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "weight": 1e400}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "priority": "top"}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "kind": "load"}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "request": "a b"}', 3, "invalid_request"),
        (b'{"op": "acquire", "id": 3, "preset": "a", "request": "a\\n"}', 3, "invalid_request"),
        (
            b'{"op": "acquire", "id": 3, "preset": "a", "request": "%b"}' % (b"x" * 129),
            3,
            "invalid_request",
        ),
        (b'{"op": "release", "id": 3, "lease": 1, "read": -1}', 3, "invalid_request"),
    ],
)
async def test_what_cannot_be_done_is_refused_and_closes_nothing(line, id, code):
    async with serving() as (_, socket), wired(socket) as wire:
        reply = await wire.ask(line)

        assert (reply["id"], reply["error"]["code"]) == (id, code)
        assert await wire.ask(PING) == {"id": 7, "ok": {}}


async def test_a_line_over_the_limit_is_refused_and_the_next_one_is_read():
    async with serving() as (_, socket), wired(socket) as wire:
        reply = await wire.ask(b'{"op": "ping", "id": 1, "x": "' + b"x" * LINE_LIMIT + b'"}')

        assert (reply["id"], reply["error"]["code"]) == (-1, "invalid_request")
        assert await wire.ask(PING) == {"id": 7, "ok": {}}


async def test_empty_lines_are_nothing():
    async with serving() as (_, socket), wired(socket) as wire:
        wire.send(b"")
        wire.send(b"  ")
        assert await wire.ask(PING) == {"id": 7, "ok": {}}


async def test_a_line_may_come_in_pieces():
    async with serving() as (stage, socket), wired(socket) as wire:
        for byte in b'{"op": "ping", "id": 5}\n':
            wire.writer.write(bytes([byte]))
            await steps(2)
            await stage.owner.caught_up()
        assert (await wire.reply())["id"] == 5


async def test_a_client_that_dies_in_the_middle_of_a_line_asks_for_nothing():
    async with serving() as (stage, socket):
        async with wired(socket) as wire:
            wire.writer.write(b'{"op": "acquire", "id": 1, "preset": "a"')
            await wire.writer.drain()
        async with wired(socket) as other:
            await other.ask(PING)

        assert stage.starts == []


async def test_a_lease_names_the_instance_and_where_it_listens():
    async with serving(preset("a", aliases=("alias",))) as (stage, socket), wired(socket) as wire:
        reply = await wire.ask({"op": "acquire", "id": 1, "preset": "alias"})

        assert reply["ok"]["preset"] == "a"
        assert reply["ok"]["instance"] == 1
        assert reply["ok"]["address"].endswith(".sock")
        assert stage.leases() == 1


async def test_a_lease_says_which_limits_its_preset_has_now():
    served = preset("a", parallel=4, idle_timeout_seconds=2.5)
    async with serving(served) as (stage, socket), wired(socket) as wire:
        told = [(await wire.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"].get("limits")]
        changed = replace(served, idle_timeout_seconds=None, answer_timeout_seconds=60.0)
        for id, spec in ((2, changed), (3, replace(changed, answer_timeout_seconds=None))):
            stage.offers(spec, revision=id)
            reply = await wire.ask({"op": "acquire", "id": id, "preset": "a"})
            told.append(reply["ok"].get("limits"))

        assert told == [{"idle": 2.5}, {"answer": 60.0}, None]
        assert stage.starts == ["a"]


async def test_a_lease_says_how_its_request_is_filtered_by_the_name_that_was_asked():
    filters = RequestFilters(("seed",), {}, {"n": 1}, {"alias": {"n": 2}})
    served = preset("a", parallel=4, aliases=("alias", "other"), filters=filters)
    async with serving(served) as (stage, socket), wired(socket) as wire:
        told = []
        for id, name in enumerate(["a", "other", "alias"]):
            reply = await wire.ask({"op": "acquire", "id": id, "preset": name})
            told.append(reply["ok"]["filters"])
        stage.offers(replace(served, filters=NO_FILTERS), revision=2)
        after = await wire.ask({"op": "acquire", "id": 9, "preset": "a"})

        assert told == [
            {"strip": ["seed"], "set": {"n": 1}},
            {"strip": ["seed"], "set": {"n": 1}},
            {"strip": ["seed"], "set": {"n": 2}},
        ]
        assert "filters" not in after["ok"]
        assert after["ok"]["instance"] == 1  # an edit of filters starts nothing anew
        assert stage.starts == ["a"]


async def test_a_pattern_sets_what_it_says_in_the_request_by_a_name_that_it_fits():
    filters = RequestFilters(aliases={"gpt*": {"n": 1}, "gpt-4*": {"n": 2}})
    served = preset("a", parallel=4, aliases=("gpt*", "gpt-4*"), filters=filters)
    async with serving(served) as (_, socket), wired(socket) as wire:
        told = []
        asked = [("gpt-3", {}), ("gpt-4o", {}), ("mine", {"exact": "gpt-4*"}), ("a", {})]
        for id, (name, own) in enumerate(asked):
            reply = await wire.ask({"op": "acquire", "id": id, "preset": name, "own": own})
            told.append(reply["ok"].get("filters"))

        assert told == [{"set": {"n": 1}}, {"set": {"n": 2}}, {"set": {"n": 2}}, None]


async def test_a_lease_is_explained_by_its_acquires_id_on_its_own_connection_only():
    async with serving() as (_, socket), wired(socket) as wire, wired(socket) as other:
        await wire.ask({"op": "acquire", "id": 5, "preset": "a", "request": "mine"})
        own = await wire.ask({"op": "explain", "id": 6, "target": 5})
        others = await other.ask({"op": "explain", "id": 6, "target": 5})
        by_text = await other.ask({"op": "explain", "id": 7, "request": "mine"})

        assert own["ok"]["state"] == by_text["ok"]["state"] == "answering"
        assert own["ok"]["request"] == "mine"
        assert others["error"]["code"] == "not_found"


async def test_a_load_that_somebody_waits_for_is_explained_by_its_id():
    async with serving(ready=False) as (stage, socket), wired(socket) as wire:
        wire.send({"op": "load", "id": 5, "preset": "a", "wait": True})
        await until(stage.queue)
        told = await wire.ask({"op": "explain", "id": 6, "target": 5})

        assert (told["ok"]["state"], told["ok"]["kind"]) == ("waiting", "load")


async def test_who_waits_is_listed_page_by_page():
    async with serving(ready=False) as (stage, socket), wired(socket) as wire:
        for number in range(5):
            asked = {"op": "acquire", "id": number, "preset": "a", "request": f"r{number}"}
            wire.send({**asked, "tenant": "blue"})
        await until(lambda: stage.queue() and stage.queue()[0].waiters == 5)
        page = {"op": "waiters", "id": 9, "preset": "a", "limit": 2}
        first, last, beyond = [
            (await wire.ask({**page, "offset": offset}))["ok"] for offset in (0, 4, 7)
        ]

        assert (first["preset"], first["count"]) == ("a", 5)
        assert [(row["position"], row["request"]) for row in first["items"]] == [
            (1, "r0"),
            (2, "r1"),
        ]
        assert [(row["position"], row["request"]) for row in last["items"]] == [(5, "r4")]
        assert (beyond["count"], beyond["items"]) == (5, [])
        assert {row["tenant"] for row in first["items"]} == {"blue"}


async def test_a_preset_for_which_nobody_waits_has_an_empty_page():
    async with serving() as (_, socket), wired(socket) as wire:
        told = await wire.ask({"op": "waiters", "id": 9, "preset": "a"})

        assert told["ok"]["items"] == []
        assert told["ok"]["next"]["holdup"] == "load"


@pytest.mark.parametrize(
    ("counts", "tokens"),
    [
        ({"read": 120, "cached": 100, "answered": 55}, 75),
        ({"read": 10, "cached": 30, "answered": 5}, 5),
        ({"read": 7}, 7),
        ({"answered": 4}, 4),
        ({"read": 0, "cached": 0, "answered": 0}, 0),
        ({"cached": 3}, None),
        ({}, None),
        ({"died": True}, None),
    ],
)
async def test_the_core_is_told_what_was_computed_for_a_lease_or_that_nobody_counted(
    counts, tokens
):
    told: list[Released] = []

    class Hearing(Planner):
        def handle(self, event, now):
            if isinstance(event, Released):
                told.append(event)
            return super().handle(event, now)

    planner = Hearing(Config())
    async with serving(planner=planner) as (stage, socket), wired(socket) as wire:
        lease = (await wire.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"]["lease"]
        wire.send({"op": "release", "id": 2, "lease": lease, **counts})
        if "died" in counts:
            stage.children[0].end(1)
        await wire.reply()

        assert [event.tokens for event in told] == [tokens]


async def test_a_released_lease_is_over_and_known_no_more():
    async with serving() as (stage, socket), wired(socket) as wire:
        lease = (await wire.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"]["lease"]

        assert await wire.ask({"op": "release", "id": 2, "lease": lease}) == {"id": 2, "ok": {}}
        assert stage.leases() == 0
        again = await wire.ask({"op": "release", "id": 3, "lease": lease})
        assert again["error"]["code"] == "unknown_lease"


async def test_a_silent_release_is_answered_only_when_it_is_refused():
    async with serving() as (stage, socket), wired(socket) as wire:
        lease = (await wire.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"]["lease"]
        wire.send({"op": "release", "id": 2, "lease": lease, "silent": True})
        wire.send({"op": "release", "id": 3, "lease": lease, "silent": True})

        reply = await wire.reply()

        assert (reply["id"], reply["error"]["code"]) == (3, "unknown_lease")
        assert stage.leases() == 0


async def test_nobody_can_release_anothers_lease():
    async with serving() as (stage, socket), wired(socket) as one, wired(socket) as other:
        lease = (await one.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"]["lease"]
        reply = await other.ask({"op": "release", "id": 1, "lease": lease})

        assert reply["error"]["code"] == "unknown_lease"
        assert stage.leases() == 1


async def test_a_cancelled_waiter_leaves_and_gets_no_reply_of_its_own():
    async with serving(ready=False) as (stage, socket), wired(socket) as wire:
        wire.send({"op": "acquire", "id": 1, "preset": "a"})
        assert await wire.ask({"op": "cancel", "id": 2, "target": 1}) == {"id": 2, "ok": {}}
        await stage.owner.caught_up()

        assert stage.queue() == []
        assert await wire.ask(PING) == {"id": 7, "ok": {}}


async def test_cancelling_what_was_granted_ends_the_lease():
    async with serving() as (stage, socket), wired(socket) as wire:
        await wire.ask({"op": "acquire", "id": 1, "preset": "a"})
        await wire.ask({"op": "cancel", "id": 2, "target": 1})
        await stage.owner.caught_up()

        assert stage.leases() == 0


async def test_an_id_in_use_is_refused():
    async with serving(ready=False) as (_, socket), wired(socket) as wire:
        wire.send({"op": "acquire", "id": 1, "preset": "a"})
        reply = await wire.ask({"op": "acquire", "id": 1, "preset": "a"})

        assert reply["error"]["code"] == "invalid_request"


async def test_a_load_outlives_the_connection_that_asked_for_it():
    async with serving(ready=False) as (stage, socket):
        async with wired(socket) as wire:
            assert (await wire.ask({"op": "load", "id": 1, "preset": "a"}))["ok"] == {
                "queued": True
            }
        await until(lambda: stage.children)
        stage.children[0].say("ready")
        async with wired(socket) as wire:
            assert (await wire.ask({"op": "load", "id": 1, "preset": "a", "wait": True}))["ok"] == {
                "preset": "a",
                "instance": 1,
            }


async def test_a_broken_connection_takes_its_waiters_and_its_leases_along():
    async with serving(preset("a")) as (stage, socket):
        async with wired(socket) as wire:
            await wire.ask({"op": "acquire", "id": 1, "preset": "a"})
            wire.send({"op": "acquire", "id": 2, "preset": "a"})
            await wire.ask(PING)
        await until(lambda: not stage.leases())

        assert stage.queue() == []


async def test_two_thousand_waiters_on_one_connection_are_all_answered():
    async with serving(preset("a", parallel=2000)) as (stage, socket), wired(socket) as wire:
        for id in range(2000):
            wire.send({"op": "acquire", "id": id, "preset": "a", "tenant": f"t{id % 2}"})
        replies = [await wire.reply() for _ in range(2000)]

        assert {reply["id"] for reply in replies} == set(range(2000))
        assert all("ok" in reply for reply in replies)
        assert stage.leases() == 2000
        assert stage.starts == ["a"]


async def test_two_thousand_waiters_leave_with_their_connection():
    async with serving(preset("a"), ready=False) as (stage, socket):
        async with wired(socket) as wire:
            for id in range(2000):
                wire.send({"op": "acquire", "id": id, "preset": "a", "tenant": f"t{id % 2}"})
            await wire.ask(PING)
            [entry] = stage.queue()
            assert entry.waiters == 2000
        await until(lambda: not stage.queue())


async def test_a_peer_that_reads_nothing_is_not_read_for_ever():
    async with serving() as (_, socket):
        with deaf_peer(socket) as deaf:
            lines = await sent_until_it_stalls(deaf, b'{"op": "dance", "id": 1}\n')

            assert lines < 2_000_000
            async with wired(socket) as other:
                assert await other.ask(PING) == {"id": 7, "ok": {}}
            assert await replies_read(deaf, lines) >= lines


@contextlib.contextmanager
def deaf_peer(socket):
    with sockets.socket(sockets.AF_UNIX) as deaf:
        deaf.setblocking(False)
        deaf.connect(str(socket))
        yield deaf


async def sent_until_it_stalls(peer, line: bytes) -> int:
    """How many lines were taken before nothing more was, or the connection was cut."""
    sent = 0
    with contextlib.suppress(TimeoutError, ConnectionError):
        while sent < 2_000_000:
            async with asyncio.timeout(1):
                await asyncio.get_running_loop().sock_sendall(peer, line * 1000)
            sent += 1000
    return sent


async def replies_read(peer, count: int) -> int:
    """How many replies come, when at least `count` are expected and the connection is whole."""
    read = 0
    while read < count:
        data = await asyncio.get_running_loop().sock_recv(peer, 1 << 20)
        if not data:
            break
        read += data.count(b"\n")
    return read


async def test_a_release_after_a_crash_tells_how_it_ended():
    async with serving() as (stage, socket), wired(socket) as wire:
        lease = (await wire.ask({"op": "acquire", "id": 1, "preset": "a"}))["ok"]["lease"]
        wire.send({"op": "release", "id": 2, "lease": lease, "died": True})
        await stage.owner.caught_up()
        stage.children[0].end(-11)

        assert (await wire.reply())["ok"] == {
            "ended": {"by_itself": True, "reason": "crashed", "signal": 11}
        }


async def test_shutting_down_refuses_waiters_and_keeps_leases():
    async with serving(preset("a")) as (stage, socket), wired(socket) as wire:
        await wire.ask({"op": "acquire", "id": 1, "preset": "a"})
        wire.send({"op": "acquire", "id": 2, "preset": "a"})
        wire.send({"op": "shutdown", "id": 3})
        first, second = await wire.reply(), await wire.reply()

        assert (first["id"], first["error"]["code"]) == (2, "shutting_down")
        assert second == {"id": 3, "ok": {}}
        assert stage.leases() == 1
        assert (await wire.ask({"op": "snapshot", "id": 4}))["ok"]["shutting_down"]


async def test_a_load_with_the_id_of_a_lease_takes_nothing_from_it():
    async with serving() as (stage, socket):
        async with wired(socket) as wire:
            await wire.ask({"op": "acquire", "id": 1, "preset": "a"})
            await wire.ask({"op": "load", "id": 1, "preset": "a"})
            await wire.ask({"op": "load", "id": 1, "preset": "nope"})
            assert stage.leases() == 1
        await until(lambda: stage.leases() == 0)


async def test_a_name_that_none_can_have_is_told_shortened():
    async with serving() as (_, socket), wired(socket) as wire:
        for op in ("acquire", "load", "unload", "apply"):
            reply = await wire.ask({"op": op, "id": 1, "preset": "n" * 100_000})

            assert reply["error"]["code"] == "model_not_found"
            assert len(reply["error"]["message"]) < 400


async def test_a_reply_that_cannot_be_written_is_an_error_and_ends_nothing():
    async with serving(preset("a")) as (stage, socket), wired(socket) as wire:
        run = await stage.ask("a").run()
        run.why = "\ud800"

        failed = await wire.ask({"op": "snapshot", "id": 3})
        alive = await wire.ask(PING)

        assert failed["error"]["code"] == "internal_error"
        assert alive["id"] == 7


async def test_a_snapshot_says_when_the_jobs_process_last_showed_life():
    async with serving() as (_, socket), wired(socket) as wire:
        before = await wire.ask({"op": "snapshot", "id": 1})
        await wire.ask({**PING, "process": "jobs"})
        after = await wire.ask({"op": "snapshot", "id": 2})
        other = await wire.ask({**PING, "process": "somebody"})

        assert before["ok"]["jobs_ago"] is None
        assert 0 <= after["ok"]["jobs_ago"] < 60
        assert other["error"]["code"] == "invalid_request"
