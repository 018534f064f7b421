"""What runs elsewhere: granted, queued and refused like all others, and no child's rule sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.decisions import Start, WakeAt
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    Exited,
    PresetsChanged,
    ReadyReported,
    Released,
    RemoteHeard,
    Requested,
    ShutdownAsked,
    Ticked,
    UnloadAsked,
)
from scheduler.core.planner import Planner
from scheduler.core.values import Code, Config, Kind, Priority

from .story import Story, codes, granted, preset, refused, started


def remote(name: str = "r", parallel: int = 2, fingerprint: str = "far", **options):
    return preset(name, fingerprint, parallel=parallel, remote=True, **options)


def failing(story: Story, requests, why: str = "refused") -> list:
    """Each is granted and fails."""
    decisions = []
    for request in requests:
        story.ask(request, "r")
        decisions += story.tell(RemoteHeard(request, why))
        story.release(request, after=0.0)
    return decisions


def test_a_request_is_granted_at_once_without_a_start():
    story = Story(remote())

    decisions = story.ask(1, "r")

    assert granted(decisions) == [1]
    assert started(decisions) == []
    assert story.alive == []


def test_it_takes_no_slot_of_the_machine_and_is_no_victim():
    story = Story(remote(), "a", "b", models_max=1)
    story.ask(1, "r")
    story.release(1)

    assert started(story.ask(2, "a")) == ["a"]
    story.ready("a")
    story.release(2)
    assert [type(d).__name__ for d in story.ask(3, "b")] == ["AskExit"]


def test_no_more_requests_than_its_limit_are_under_way():
    story = Story(remote(parallel=2), oversubscribe=4)
    assert granted(story.ask(1, "r") + story.ask(2, "r") + story.ask(3, "r")) == [1, 2]
    assert story.queue == ["r"]
    assert story.why(3).holdup == "slot"

    assert granted(story.release(1)) == [3]


def test_who_waits_for_it_holds_up_no_load():
    story = Story(remote(parallel=1), "a", models_max=1)
    story.ask(1, "r")
    story.ask(2, "r")

    assert started(story.ask(3, "a")) == ["a"]


def test_tenants_take_turns_at_it():
    story = Story(remote(parallel=1))
    story.ask(1, "r", tenant="one")
    for request in (2, 3, 4):
        story.ask(request, "r", tenant="one")
    story.ask(5, "r", tenant="two")
    story.release(1, tokens=10_000)

    assert 5 in granted(story.release(2, tokens=10_000))


def test_a_higher_class_goes_first():
    story = Story(remote(parallel=1))
    story.ask(1, "r")
    story.ask(2, "r", priority=Priority.LOW)
    story.ask(3, "r", priority=Priority.HIGH)

    assert granted(story.release(1)) == [3]


def test_the_bounds_of_the_queue_hold_for_it_too():
    story = Story(remote(parallel=1, queue_limit=1))
    story.ask(1, "r")
    story.ask(2, "r")

    assert codes(story.ask(3, "r")) == {3: Code.MODEL_QUEUE_FULL}


def test_who_waits_too_long_for_it_is_refused():
    story = Story(remote(parallel=1), queue_wait_seconds=5.0)
    story.ask(1, "r")
    story.ask(2, "r")

    assert codes(story.wait(6.0)) == {2: Code.QUEUE_TIMEOUT}


def test_keep_alive_and_an_unload_end_nothing():
    story = Story(remote(keep_alive_seconds=1.0), keep_alive_seconds=1.0)
    story.ask(1, "r")
    story.release(1)

    assert story.wait(5.0) == []
    assert story.tell(UnloadAsked("r", force=True)) == []
    assert granted(story.ask(2, "r")) == [2]


def test_a_look_takes_no_slot():
    story = Story(remote(parallel=1))
    story.ask(1, "r")

    assert granted(story.look(2, "r")) == [2]
    assert [type(d).__name__ for d in story.wait(11.0)] == ["Revoke"]


def test_a_load_is_answered_at_once():
    assert granted(Story(remote()).ask(1, "r", Kind.LOAD)) == [1]


# Edits ----------------------------------------------------------------------------------------


def test_a_higher_limit_counts_at_once():
    story = Story(remote(parallel=1))
    for request in (1, 2, 3):
        story.ask(request, "r")

    assert granted(story.edit(remote(parallel=3))) == [2, 3]


def test_an_edit_cuts_no_answer_and_the_next_grant_is_of_the_new_one():
    story = Story(remote(parallel=1))
    story.ask(1, "r")
    assert story.edit(remote(parallel=1, fingerprint="elsewhere")) == []

    story.ask(2, "r")
    assert granted(story.release(1)) == [2]


def test_who_waits_for_one_that_is_deleted_is_told():
    story = Story(remote(parallel=1), "a")
    story.ask(1, "r")
    story.ask(2, "r")

    assert codes(story.edit("a")) == {2: Code.MODEL_REMOVED}
    assert story.release(1) == []


def test_a_preset_that_becomes_remote_lets_its_child_end_what_it_has_begun():
    story = Story("r", models_max=1)
    story.busy(1, "r")
    story.ask(2, "r")

    decisions = story.edit(remote())
    assert [type(d).__name__ for d in decisions] == ["Drain", "Grant"]
    assert granted(decisions) == [2]
    assert [type(d).__name__ for d in story.release(1)] == ["AskExit"]


def test_waiters_of_a_load_are_served_elsewhere_once_their_preset_is_remote():
    story = Story("a", "r", models_max=1)
    story.busy(1, "a")
    story.ask(2, "r")

    assert granted(story.edit("a", remote())) == [2]


def test_a_remote_that_becomes_local_is_started_for_those_who_wait():
    story = Story(remote(parallel=1))
    story.ask(1, "r")
    story.ask(2, "r")

    assert started(story.edit("r")) == ["r"]
    assert granted(story.ready("r")) == [2]


def test_a_rename_keeps_who_waits():
    story = Story(remote(parallel=1))
    story.ask(1, "r")
    story.ask(2, "r")

    assert granted(story.rename("r", remote("new", parallel=1), to="new")) == [2]


# The circuit breaker ----------------------------------------------------------------------------


def test_failures_in_a_row_give_it_up_for_a_second():
    story = Story(remote(), remote_broken_after=3)
    assert failing(story, (1, 2)) == []
    failing(story, (3,))

    refusal = refused(story.ask(4, "r", after=0.1))[4]
    assert refusal.code is Code.UPSTREAM_UNAVAILABLE
    assert 0 < refusal.retry_after_seconds <= 1.0
    assert refusal.exit.words == "refused"


def test_an_answer_between_failures_makes_them_no_row():
    story = Story(remote(), remote_broken_after=2)
    for request in range(1, 9, 2):
        failing(story, (request,))
        story.ask(request + 1, "r")
        story.tell(RemoteHeard(request + 1))
        story.release(request + 1)

    assert granted(story.ask(10, "r")) == [10]


def test_who_waits_is_refused_when_it_is_given_up():
    story = Story(remote(parallel=1), remote_broken_after=1)
    story.ask(1, "r")
    story.ask(2, "r")

    assert codes(story.tell(RemoteHeard(1, "no answer"))) == {2: Code.UPSTREAM_UNAVAILABLE}


def test_after_the_back_off_one_request_tries_and_the_others_wait_for_it():
    story = Story(remote(parallel=3), remote_broken_after=1)
    failing(story, (1,))
    story.wait(2.0)

    assert granted(story.ask(2, "r")) == [2]
    assert story.ask(3, "r") == []
    assert story.ask(4, "r") == []
    assert granted(story.tell(RemoteHeard(2))) == [3, 4]


def test_a_try_that_fails_doubles_the_back_off_up_to_a_minute():
    story = Story(remote(), remote_broken_after=1)
    waits = []
    for request in range(1, 10):
        failing(story, (request,))
        waits.append(story.planner.failures["r"].until - story.planner.failures["r"].failed_at)
        story.until(story.planner.failures["r"].until + 0.5)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_try_whose_client_leaves_lets_the_next_one_try():
    story = Story(remote(), remote_broken_after=1)
    failing(story, (1,))
    story.wait(2.0)
    story.ask(2, "r")
    story.ask(3, "r")

    assert granted(story.cancel(2)) == [3]


def test_answers_from_before_it_was_given_up_keep_nobody_from_trying_and_say_nothing():
    story = Story(remote(parallel=2), remote_broken_after=1)
    story.ask(1, "r")
    story.ask(2, "r")
    story.tell(RemoteHeard(2, "no answer"))
    until = story.planner.failures["r"].until

    assert story.tell(RemoteHeard(1, "no answer"), after=0.0) == []
    assert story.planner.failures["r"].until == until
    story.tell(RemoteHeard(1), after=0.0)
    assert codes(story.ask(3, "r", after=0.1)) == {3: Code.UPSTREAM_UNAVAILABLE}
    story.wait(2.0)
    assert granted(story.ask(4, "r")) == [4]


def test_another_address_has_not_failed_yet():
    story = Story(remote(), remote_broken_after=1)
    failing(story, (1,))
    story.edit(remote(fingerprint="elsewhere"))

    assert granted(story.ask(2, "r", after=0.0) + story.ask(3, "r", after=0.0)) == [2, 3]


def test_a_failure_of_one_is_none_of_another():
    story = Story(remote(), remote("s"), remote_broken_after=1)
    failing(story, (1,))

    assert granted(story.ask(2, "s", after=0.0)) == [2]


def test_at_a_shutdown_nobody_is_let_in():
    story = Story(remote())
    story.tell(ShutdownAsked())

    assert codes(story.ask(1, "r")) == {1: Code.SHUTTING_DOWN}


# Whatever happens -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "look", "ok", "fail", "release", "cancel", "abandon", "edit"]),
        st.integers(0, 7),
        st.sampled_from([0.0, 0.1, 1.5, 70.0]),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_limit_holds_and_nobody_waits_beside_a_free_slot(steps):
    planner = Planner(Config(remote_broken_after=2, models_max=1))
    now, limit, number = 0.0, 2, 0
    planner.handle(PresetsChanged((remote(parallel=limit),)), now)
    asked: list[int] = []
    for what, which, after in steps:
        now += after
        request = asked[which % len(asked)] if asked else 0
        match what:
            case "ask" | "look":
                number += 1
                asked.append(number)
                kind = Kind.POST if what == "ask" else Kind.GET
                event = Requested(number, "r", now, kind, tenant=str(which % 2))
            case "ok":
                event = RemoteHeard(request)
            case "fail":
                event = RemoteHeard(request, "no answer")
            case "release":
                event = Released(request)
            case "cancel":
                event = Cancelled(request)
            case "abandon":
                event = Abandoned(request)
            case _:
                limit = 1 + which % 3
                event = PresetsChanged((remote(parallel=limit),))
        before = len(planner.remotes["r"].leases)
        decisions = [*planner.handle(event, now), *planner.handle(Ticked(), now)]
        assert not any(isinstance(d, Start) for d in decisions)
        instance = planner.remotes["r"]
        assert instance.limit in {1, limit}
        assert len(instance.leases) <= max(before, instance.limit)
        assert not (planner.waits_for("r") and instance.has_free_slot)
    assert planner.instances == {}


LOCAL = st.sampled_from(["ask", "ask", "release", "ready", "exit", "tick", "look"])
FAR = st.sampled_from(["far-ask", "far-ask", "far-ok", "far-fail", "far-release", "far-look"])
STORY = st.lists(
    st.tuples(st.one_of(LOCAL, FAR), st.integers(0, 5), st.sampled_from([0.1, 1.0, 31.0])),
    max_size=50,
)


class Half:
    """A planner that is told what concerns children, and of remotes only if it has one. Instances
    are known by the order in which they were started."""

    def __init__(self, *, has_remote: bool) -> None:
        self.planner = Planner(Config(models_max=2, keep_alive_seconds=60.0, remote_broken_after=2))
        far = (remote(parallel=1),) if has_remote else ()
        self.planner.handle(PresetsChanged((preset("a"), preset("b"), preset("c"), *far)), 0.0)
        self.started: list[int] = []

    def tell(self, event, now: float) -> list[str]:
        """What was decided of children."""
        decisions = self.planner.handle(event, now)
        self.started += [d.instance for d in decisions if isinstance(d, Start)]
        return [
            " ".join(str(part) for part in self._told(d))
            for d in decisions
            if not isinstance(d, WakeAt) and getattr(d, "request", 0) < FAR_REQUESTS
        ]

    def _told(self, decision):
        number = getattr(decision, "instance", None)
        yield type(decision).__name__
        yield "" if number is None else self.started.index(number)
        yield getattr(decision, "request", "")
        yield getattr(decision, "reason", "")


FAR_REQUESTS = 1000


def told_to(half: Half, what: str, which: int, number: int, asked: list[int]):
    """The event, or None where there is nothing to tell."""
    request = asked[which % len(asked)] if asked else 0
    instance = half.started[which % len(half.started)] if half.started else 0
    match what.removeprefix("far-"):
        case "ask" | "look" as kind:
            far = what.startswith("far-")
            name, tenant = ("r", "far") if far else ("abc"[which % 3], "")
            asks = Kind.POST if kind == "ask" else Kind.GET
            return Requested(number, name, 0.0, asks, tenant=tenant)
        case "release":
            return Released(request)
        case "ok":
            return RemoteHeard(request)
        case "fail":
            return RemoteHeard(request, "no answer")
        case "ready":
            return ReadyReported(instance)
        case "exit":
            return Exited(instance)
        case _:
            return Ticked()


@given(STORY)
def test_what_becomes_of_children_is_the_same_with_a_remote_beside_them(steps):
    alone, beside = Half(has_remote=False), Half(has_remote=True)
    now, number = 0.0, 0
    here: list[int] = []
    far: list[int] = []
    for what, which, after in steps:
        now += after
        number += 1
        if what.startswith("far-"):
            event = told_to(beside, what, which, FAR_REQUESTS + number, far)
            if isinstance(event, Requested):
                far.append(event.request)
            decided = beside.tell(event, now)
            assert decided == alone.tell(Ticked(), now)
            continue
        decided = []
        for half in (alone, beside):
            event = told_to(half, what, which, number, here)
            decided.append(half.tell(event, now))
        if isinstance(event, Requested):
            here.append(number)
        assert decided[0] == decided[1]
