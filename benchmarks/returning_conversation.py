"""What a conversation waits for whose model was evicted meanwhile: saved, against read again; and
whether its answers are those of a process that was never evicted."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame import Scope, process, rounds_of, say, spread, table
from benchmarks.subjects import ChildCommand, corral, free_port, is_up
from tests.support.asking import Client
from tests.support.gateway import KEY, Gateway
from tests.support.polling import eventually

HEADING = "A returning conversation"
AIM = 1 / 20
TOKENS = 1500
TENANTS = 3
RETURNS = 7
"""Of each tenant's conversation, in a round: five rounds are 105 evictions."""
IN_COMMON = 5
"""Tokens at the beginning of two stories that may happen to be the same: digits."""
ANSWER_TOKENS = 8
JUDGED = "smollm2"
"""To read is next to nothing for the tiny one."""
TITLES = {"tiny": "A tiny model", "smollm2": "SmolLM2-135M-Instruct, Q4_1"}

_RESTORED = re.compile(r"of alpha: kv restore .*'seconds': ([\d.]+)")
_SAVED = re.compile(r"of alpha: kv save .*'bytes': (\d+), 'seconds': ([\d.]+)")


@dataclass
class Conversation:
    """Its prompts, and what was answered; the first one is read from nothing."""

    key: str
    prompts: list[str]
    answers: list[str] = field(default_factory=list)
    whole: float = 0.0
    """Seconds of prompt processing at its beginning."""
    returns: list[float] = field(default_factory=list)
    """Seconds of each later turn: restoring, and what was left to read."""
    found: list[float] = field(default_factory=list)
    """Share of the prompt that was there."""


@dataclass
class Round:
    conversations: list[Conversation]
    written: list[tuple[int, float]]
    """Bytes and seconds of each save."""
    equal: int = 0


def section(folder: Path, scope: Scope) -> str:
    parts = [
        f"`serve --models-max 1 -np 1`, {TENANTS} teams with a conversation of {TOKENS:,} tokens "
        f"each on one model; before every further turn (of {ANSWER_TOKENS} tokens) another model "
        "takes its place. Seconds from the process being ready until the prompt has been read: of "
        "the first turn, which is read whole; and of later ones, what was saved being restored "
        "before. Loading the model comes on top of both. The same turns are asked of a process "
        "with the same command line that is never evicted, one for each conversation. Temperature "
        f"0; {rounds_of(scope)}, a round being the median of {TENANTS * RETURNS} evictions.",
    ]
    children = [child for child in TITLES if child in scope.children]
    for child in children:
        with corral(
            folder / child,
            child,
            *("--models-max", "1", "-np", "1", "-c", "4096"),
            models=("alpha", "beta"),
        ) as running:
            command = ChildCommand.of(running.child_of("alpha"))
            keys = [_key(running, number) for number in range(TENANTS)]
            rounds = []
            for number in range(scope.rounds):
                rounds.append(_round(running, keys, number))
                rounds[-1].equal = _equal(command, rounds[-1])
                say(f"{child}: round {number + 1} of {scope.rounds}")
        parts.append(_text(child, rounds))
    return "\n\n".join(parts)


def _key(running: Gateway, number: int) -> str:
    made = running.manage("createkey", "bench", "--team", f"team-{number}")
    found = KEY.search(made.stdout)
    assert found, made
    return found[0]


# Through the gateway -----------------------------------------------------------------------------


def _round(running: Gateway, keys: Sequence[str], number: int) -> Round:
    lines = len(running.output)
    talks = [Conversation(key, [_story(running, f"{number}-{key}")]) for key in keys]
    for turn in range(RETURNS + 1):
        for talk in talks:
            _evict(running)
            _turn(running, talk, is_first=turn == 0)
    _evict(running)
    saved = (_SAVED.search(line) for line in running.output[lines:])
    return Round(talks, [(int(found[1]), float(found[2])) for found in saved if found])


def _evict(running: Gateway) -> None:
    answer = running.client.chat("beta", max_tokens=1)
    assert answer.status == 200, answer.body


def _turn(running: Gateway, talk: Conversation, *, is_first: bool) -> None:
    lines = len(running.output)
    body = _body(talk.prompts[-1])
    answer = running.client.request("POST", "/v1/completions", body, key=talk.key, timeout=600)
    assert answer.status == 200, answer.body
    timings, text = answer.json["timings"], answer.json["choices"][0]["text"]
    seconds = timings["prompt_ms"] / 1000
    if is_first:
        assert timings["cache_n"] <= IN_COMMON, timings
        talk.whole = seconds
    else:
        restored = [_RESTORED.search(line) for line in running.output[lines:]]
        talk.returns.append(seconds + sum(float(found[1]) for found in restored if found))
        talk.found.append(timings["cache_n"] / (timings["cache_n"] + timings["prompt_n"]))
    talk.answers.append(text)
    talk.prompts.append(f"{talk.prompts[-1]}{text}\nGo on:")


def _body(prompt: str) -> dict[str, Any]:
    return {
        "model": "alpha",
        "prompt": prompt,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }


def _story(running: Gateway, seed: str) -> str:
    """So many tokens that begin as no other's do, but for a few."""
    words = ["river", "lamp", "under", "seven", "bright", "stone", "walks", "quiet", "and", "the"]
    drawn = random.Random(seed)
    told = " ".join(
        [f"{drawn.randrange(10**6)}", *(drawn.choice(words) for _ in range(2 * TOKENS))]
    )
    body = {"model": "alpha", "content": told}
    tokens = len(running.client.request("POST", "/tokenize", body).json["tokens"])
    return " ".join(told.split(" ")[: round(2 * TOKENS * TOKENS / tokens)])


# The process that is never evicted ---------------------------------------------------------------


def _equal(command: ChildCommand, done: Round) -> int:
    """How many of the later turns were answered as there."""
    equal = 0
    for talk in done.conversations:
        port = free_port()
        with process(command.at("127.0.0.1", port), command.env):
            eventually(partial(is_up, port), "the child has loaded")
            client = Client(port, "")
            for turn, (prompt, answer) in enumerate(zip(talk.prompts, talk.answers, strict=False)):
                told = client.request("POST", "/v1/completions", _body(prompt), timeout=600).json
                equal += turn > 0 and told["choices"][0]["text"] == answer
    return equal


# As text -----------------------------------------------------------------------------------------


def _text(child: str, rounds: list[Round]) -> str:
    whole = [statistics.median(talk.whole for talk in each.conversations) for each in rounds]
    returns = [[s for talk in each.conversations for s in talk.returns] for each in rounds]
    came_back = [statistics.median(seconds) for seconds in returns]
    slowest = [max(seconds) for seconds in returns]
    share = [b / a for a, b in zip(whole, came_back, strict=True)]
    found = [share for each in rounds for talk in each.conversations for share in talk.found]
    saves = [save for each in rounds for save in each.written]
    evictions = sum(map(len, returns))
    reached = "reached" if statistics.median(share) <= AIM else "not reached"
    aim = f"; the aim is at most {AIM:g}: {reached}" if child == JUDGED else ""
    rows = [
        ["read whole", spread(whole, ".3f")],
        ["come back", spread(came_back, ".3f")],
        ["come back, the slowest of a round", spread(slowest, ".3f")],
        ["saved before the exit", spread([seconds for _, seconds in saves], ".3f")],
        ["MiB of a save", spread([size / 2**20 for size, _ in saves], ".1f")],
    ]
    return "\n\n".join(
        [
            f"### {TITLES[child]}",
            f"{spread(share, '.4f')} of reading it again over {evictions} evictions{aim}. "
            f"At least {min(found):.1%} of each prompt was there. "
            f"{sum(each.equal for each in rounds)} of {evictions} answers are those of the process "
            "that was never evicted.",
            table(["", "seconds"], rows),
        ]
    )
