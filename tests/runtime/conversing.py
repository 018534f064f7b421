"""Words for conversations in the runtime's tests."""

from __future__ import annotations

import asyncio

from scheduler.protocol import Refused, Stop, Stream, StreamState

from .standing_in import Asking, Stage


def ask(stage: Stage, name: str = "a", id: str = "c", owner: str = "me", **fields) -> Asking:
    return stage.ask(name, conversation=id, owner=owner, **fields)


async def told(stage: Stage, id: str = "c", owner: str = "me") -> StreamState | Refused:
    answers: list[StreamState | Refused] = []
    stage.operations.conversing.stream(Stream(1, id, owner), answers.append)
    await stage.owner.caught_up()
    return answers[0]


async def state(stage: Stage, id: str = "c", owner: str = "me") -> str:
    answer = await told(stage, id, owner)
    return answer.code if isinstance(answer, Refused) else answer.state


async def stop(stage: Stage, id: str = "c", owner: str = "me") -> None:
    stopped = asyncio.Event()
    stage.operations.conversing.stop(Stop(1, id, owner), stopped.set)
    await stopped.wait()


async def begun(stage: Stage, *args, **fields) -> Asking:
    asking = ask(stage, *args, **fields)
    await asking.run()
    return asking


def key(stage: Stage, asking: Asking) -> str:
    return stage.operations.conversations.key_of(asking.request)


async def until_lost(stage: Stage, id: str = "c") -> None:
    while await state(stage, id) != "conversation_lost":  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)


async def unread(stage: Stage, data: bytes = b"data: hello\n\n", **fields) -> str:
    """A stream that ended while its client was away; its key."""
    asking = await begun(stage, **fields)
    its = key(stage, asking)
    stage.streams.write(its, data, done=True)
    asking.release(unread=True)
    await stage.owner.caught_up()
    return its
