"""Streams that nobody has read yet when their instance has to go."""

from __future__ import annotations

import scheduler.runtime.conversations as conversations
import scheduler.runtime.kept_streams as kept_streams
from scheduler.protocol import Seen, StreamState

from .conversing import begun, key, state, stop, told, unread, until_lost
from .standing_in import preset, staged, until


async def test_an_unread_stream_is_kept_when_its_instance_goes_and_served_from_there(tmp_path):
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=tmp_path) as stage:
        its = await unread(stage)
        assert stage.owner.planner.instances[1].holds_unread
        other = stage.ask("b")
        await other.run()
        kept = await told(stage)

        assert isinstance(kept, StreamState)
        assert (kept.state, kept.stream, kept.begin, kept.size) == ("kept", its, 0, 13)
        [file] = tmp_path.iterdir()
        assert kept.path == str(file)
        assert file.read_bytes() == b"data: hello\n\n"
        assert file.stat().st_mode & 0o777 == 0o600
        await stop(stage)
        assert not file.exists()
        other.release()


async def test_a_stream_that_was_read_is_not_kept(tmp_path):
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=tmp_path) as stage:
        its = await unread(stage)
        stage.operations.conversing.seen(Seen(1, "c", its, "me"))
        await stage.owner.caught_up()
        await stage.owner.caught_up()
        assert not stage.owner.planner.instances[1].holds_unread
        other = stage.ask("b")
        await other.run()

        assert await state(stage) == "conversation_lost"
        assert list(tmp_path.iterdir()) == []
        other.release()


async def test_what_was_read_before_it_was_released_is_read():
    """The client came back, and read faster than the gateway for nobody."""
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        stage.operations.conversing.seen(Seen(1, "c", key(stage, asking), "me"))
        asking.release(unread=True)
        await stage.owner.caught_up()

        assert not stage.owner.planner.instances[1].holds_unread


async def test_a_child_that_does_not_give_its_streams_away_goes_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(conversations, "KEEP_SECONDS", 0.02)
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=tmp_path) as stage:
        stage.streams.readable.clear()
        await unread(stage)
        other = stage.ask("b")
        await other.run()

        assert await state(stage) == "conversation_lost"
        other.release()


async def test_a_disk_that_takes_nothing_loses_the_stream_and_nothing_else(tmp_path):
    nowhere = tmp_path / "missing"
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=nowhere) as stage:
        await unread(stage)
        other = stage.ask("b")
        await other.run()

        assert await state(stage) == "conversation_lost"
        other.release()


async def test_kept_streams_have_a_bound_and_the_oldest_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_streams, "MOST_BYTES", 10 + conversations.BUFFER_BYTES)
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=tmp_path) as stage:
        await unread(stage, b"x" * 100, id="first")
        for name, id in (("b", "second"), ("a", "third")):
            asking = await begun(stage, name, id=id)
            stage.streams.write(key(stage, asking), b"y" * 100, done=True)
            asking.release(unread=True)
        await until(lambda: len(stage.owner.runs) == 1 and stage.starts == ["a", "b", "a"])

        assert await state(stage, "first") == "conversation_lost"
        assert await state(stage, "second") == "kept"
        assert await state(stage, "third") == "ended"
        assert len(list(tmp_path.iterdir())) == 1


async def test_a_kept_stream_expires_with_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(conversations, "LASTS_SECONDS", 0.3)
    async with staged(preset("a"), preset("b"), models_max=1, keep_in=tmp_path) as stage:
        await unread(stage)
        other = stage.ask("b")
        await other.run()
        await until_lost(stage)

        assert list(tmp_path.iterdir()) == []
        other.release()
