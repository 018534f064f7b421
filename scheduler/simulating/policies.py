"""The policies by name, each ready for a trace's number of places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scheduler.core.planner import Planner
from scheduler.core.values import Config, VictimPolicy

from .policy import Policy
from .rivals.llama_swap import DEFAULT_LIMIT, LlamaSwap
from .rivals.llamacpp_router import LlamaCppRouter
from .rivals.ollama import Ollama
from .workload import Trace

Make = Callable[[Trace, Config], Policy]
"""A policy for a trace; the configuration is Corral's, with the trace's `models_max` in it."""


def _corral(trace: Trace, config: Config) -> Policy:
    return Planner(config)


def _corral_lru(trace: Trace, config: Config) -> Policy:
    return Planner(replace(config, victim_policy=VictimPolicy.LRU))


def _corral_cost(trace: Trace, config: Config) -> Policy:
    return Planner(replace(config, victim_policy=VictimPolicy.COST))


def _llamacpp_router(trace: Trace, config: Config) -> Policy:
    return LlamaCppRouter(trace.places)


def _ollama(trace: Trace, config: Config) -> Policy:
    return Ollama(trace.places)


def _ollama_keep_alive(trace: Trace, config: Config) -> Policy:
    return Ollama(trace.places, clients_send_keep_alive=True)


def _llama_swap(trace: Trace, config: Config) -> Policy:
    return LlamaSwap(trace.places)


def _llama_swap_limited(trace: Trace, config: Config) -> Policy:
    return LlamaSwap(trace.places, limit=DEFAULT_LIMIT)


POLICIES: dict[str, Make] = {
    "corral": _corral,
    "corral-lru": _corral_lru,
    "corral-cost": _corral_cost,
    "llamacpp-router": _llamacpp_router,
    "ollama": _ollama,
    "ollama-keep-alive": _ollama_keep_alive,
    "llama-swap": _llama_swap,
    "llama-swap-limit-10": _llama_swap_limited,
}

RIVALS = ("llamacpp-router", "ollama", "llama-swap")


def make_policy(name: str, trace: Trace, config: Config) -> Policy:
    # On the imagined machine what an exit gives back is back at once.
    told = replace(config, models_max=trace.places, returning_seconds=0.0)
    return POLICIES[name](trace, told)
