"""What a client writes and a child prints is never taken for the child's own report."""

from __future__ import annotations

import pytest

from scheduler.runtime.child_lines import ChildState, Report
from scheduler.runtime.hearing import Hearing, InDoubt, NotBelieved, Stream

from .standing_in import preset, staged, steps, until


def line(state: str) -> bytes:
    return f'cmd_child_to_router:state:{{"state":"{state}","payload":{{}}}}'.encode()


def hearing(*lines: tuple[bytes, Stream]) -> Hearing:
    heard = Hearing()
    for text, stream in lines:
        heard.hear(text, stream)
    return heard


def test_what_has_spoken_on_stdout_is_not_heard_on_stderr():
    heard = hearing((line("loading"), Stream.OUT))

    for state in ("loading", "ready", "sleeping"):
        assert isinstance(heard.hear(line(state), Stream.ERR), NotBelieved)
    assert heard.hear(line("ready"), Stream.OUT) == Report(ChildState.READY)
    assert heard.hear(line("sleeping"), Stream.OUT) == Report(ChildState.SLEEPING)


def test_a_build_that_reports_on_stderr_is_heard_there_until_it_speaks_on_stdout():
    heard = hearing((b"a log line", Stream.ERR))

    assert heard.hear(line("loading"), Stream.ERR) == Report(ChildState.LOADING)
    assert heard.hear(line("ready"), Stream.ERR) == Report(ChildState.READY)
    heard.hear(line("ready"), Stream.OUT)
    assert isinstance(heard.hear(line("sleeping"), Stream.ERR), NotBelieved)


@pytest.mark.parametrize("stream", Stream)
def test_a_report_between_log_lines_is_in_doubt_once_requests_are_served(stream):
    heard = hearing((b"a log line", stream), (line("ready"), stream))

    assert heard.hear(line("sleeping"), stream) == InDoubt(Report(ChildState.SLEEPING))


def test_stdout_is_trusted_only_while_nothing_else_comes_on_it():
    heard = hearing((line("ready"), Stream.OUT), (b"\n", Stream.OUT))

    assert heard.hear(line("sleeping"), Stream.OUT) == Report(ChildState.SLEEPING)
    heard.hear(b"srv  log_server_r: done", Stream.OUT)
    assert isinstance(heard.hear(line("sleeping"), Stream.OUT), InDoubt)


async def loaded(stage):
    lease = stage.ask("a")
    await until(lambda: stage.children)
    stage.children[0].say("loading", stream=stage.stream)
    stage.children[0].say("ready", {"n_ctx": 7}, stream=stage.stream)
    await lease.run()
    return stage.children[0]


async def state(stage) -> str:
    await steps(5)
    await stage.owner.caught_up()
    [instance] = stage.owner.planner.instances.values()
    return str(instance.state)


async def test_a_client_cannot_put_a_model_to_sleep_through_its_log():
    async with staged(preset("a"), ready=False) as stage:
        stage.stream = Stream.OUT
        child = await loaded(stage)
        stage.engine.asleep = True  # it is not even asked
        child.say("sleeping", stream=Stream.ERR)
        child.say("loading", {"value": 0.1}, stream=Stream.ERR)

        assert await state(stage) == "loaded"


@pytest.mark.parametrize("asleep", [False, True])
async def test_where_all_comes_on_stderr_the_child_itself_is_asked_whether_it_sleeps(asleep):
    async with staged(preset("a"), ready=False) as stage:
        stage.stream = Stream.ERR
        child = await loaded(stage)
        stage.engine.asleep = asleep
        child.say("sleeping", stream=Stream.ERR)

        assert await state(stage) == ("sleeping" if asleep else "loaded")


async def test_what_the_model_is_is_told_once():
    async with staged(preset("a"), ready=False) as stage:
        stage.stream = Stream.ERR
        child = await loaded(stage)
        child.say("ready", {"n_ctx": 8}, stream=Stream.ERR)
        await steps(3)

        [run] = stage.owner.runs.values()
        assert run.meta == {"n_ctx": 7}
