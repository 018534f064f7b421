from __future__ import annotations

import asyncio
import contextlib

import pytest

from proxy.watch import Cause, Interrupted, Watch


def new_watch() -> Watch:
    task = asyncio.current_task()
    assert task is not None
    return Watch(task)


async def test_an_interruption_comes_out_of_the_block_and_leaves_the_task_uncancelled():
    watch = new_watch()
    asyncio.get_running_loop().call_soon(watch.interrupt, Cause.SHUTDOWN)

    with pytest.raises(Interrupted) as interrupted, watch:
        await asyncio.Event().wait()

    assert interrupted.value.cause is Cause.SHUTDOWN
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_an_interruption_outside_a_block_is_remembered_for_the_next():
    watch = new_watch()
    watch.interrupt(Cause.CLIENT_GONE)
    await asyncio.sleep(0)

    with pytest.raises(Interrupted), watch:
        raise AssertionError("not entered")


@pytest.mark.parametrize("steps_before_done", range(4))
@pytest.mark.parametrize("steps_before_interruption", range(4))
async def test_it_may_fall_in_any_step_around_the_end_of_the_block(
    steps_before_done, steps_before_interruption
):
    """Either the block's value or the interruption comes, and nothing is left over for later."""
    watch = new_watch()
    loop = asyncio.get_running_loop()
    result: asyncio.Future[str] = loop.create_future()

    def done() -> None:
        if not result.done():
            result.set_result("done")

    async def after(steps: int, action, *args) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        action(*args)

    sides = [
        asyncio.create_task(after(steps_before_done, done)),
        asyncio.create_task(after(steps_before_interruption, watch.interrupt, Cause.SHUTDOWN)),
    ]
    with contextlib.suppress(Interrupted), watch:
        assert await result == "done"
    await asyncio.gather(*sides)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_elsewhere_stays_one():
    async def work() -> None:
        with new_watch():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_first_cause_counts():
    watch = new_watch()
    watch.interrupt(Cause.SLOW_READER)
    watch.interrupt(Cause.CLIENT_GONE)

    assert watch.cause is Cause.SLOW_READER


async def test_a_later_limit_replaces_an_earlier_one_and_an_earlier_one_a_later():
    watch = new_watch()
    watch.limit(1000, Cause.FIRST_BYTE)
    watch.limit(0, Cause.SLOW_READER)
    with pytest.raises(Interrupted) as interrupted, watch:
        await asyncio.Event().wait()
    assert interrupted.value.cause is Cause.SLOW_READER

    watch = new_watch()
    watch.limit(0, Cause.FIRST_BYTE)
    watch.limit(1000, Cause.SLOW_READER)
    with watch:
        await asyncio.sleep(0.01)
    watch.close()


async def test_the_whole_answers_limit_holds_over_the_parts():
    watch = new_watch()
    watch.limit_answer(0)
    watch.limit(1000, Cause.BETWEEN_TOKENS)

    with pytest.raises(Interrupted) as interrupted, watch:
        await asyncio.Event().wait()

    assert interrupted.value.cause is Cause.ANSWER_LIMIT


async def test_a_receive_that_fails_counts_as_a_client_that_left(caplog):
    async def broken() -> None:
        raise RuntimeError("the server broke")

    watch = new_watch()
    watch.follow(broken)
    with pytest.raises(Interrupted) as interrupted, watch:
        await asyncio.Event().wait()

    assert interrupted.value.cause is Cause.CLIENT_GONE
    assert "the server broke" in caplog.text
    watch.close()


@pytest.mark.parametrize("before", [True, False])
async def test_a_server_may_say_itself_that_the_client_has_left(before):
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch = new_watch()
    if before:
        gone.set_result(None)
    else:
        asyncio.get_running_loop().call_soon(gone.set_result, None)
    watch.follow(unused_receive, gone)
    with pytest.raises(Interrupted) as interrupted, watch:
        await asyncio.Event().wait()

    assert interrupted.value.cause is Cause.CLIENT_GONE
    watch.close()


async def test_a_request_that_is_over_leaves_nothing_with_the_servers_connection():
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch = new_watch()
    watch.follow(unused_receive, gone)
    watch.close()

    assert gone.remove_done_callback(watch._client_left) == 0


async def unused_receive() -> None:
    raise AssertionError("nobody waits for it")
