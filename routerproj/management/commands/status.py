"""`manage.py status`: what runs now. Exit code 1 when nothing answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand

from routerproj.serve.probes import ask, web_answers
from routerproj.serve.state_lock import served_url
from scheduler.protocol import InstanceState, QueueEntry, RemoteState, Snapshot, SnapshotState

ANSWER_SECONDS = 5.0


class Command(BaseCommand):
    help = "Says what runs on this state folder: the web address, the scheduler, the models."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"state     {settings.CORRAL_VAR}")
        web = self._web()
        scheduler = self._scheduler()
        if not web and not scheduler:
            raise SystemExit(1)

    def _web(self) -> bool:
        url = served_url(settings.CORRAL_VAR)
        if not url:
            self.stdout.write("serve     does not run")
            return False
        answers = asyncio.run(web_answers(url, ANSWER_SECONDS))
        self.stdout.write(f"serve     {url} {'answers' if answers else 'does not answer'}")
        return answers

    def _scheduler(self) -> bool:
        reply = asyncio.run(ask(settings.CORRAL_CONTROL_SOCKET, Snapshot(id=1), ANSWER_SECONDS))
        if reply is None or reply.ok is None:
            self.stdout.write("scheduler does not answer")
            return False
        for line in described(msgspec.convert(reply.ok, SnapshotState)):
            self.stdout.write(line)
        return True


def described(state: SnapshotState) -> list[str]:
    limit = state.models_max or "no limit"
    stopping = ", stopping" if state.shutting_down else ""
    return [
        f"scheduler pid {state.pid}, {len(state.instances)} of {limit} models loaded{stopping}",
        *(f"  {_instance(instance)}" for instance in state.instances),
        *(f"  {_remote(remote)}" for remote in state.remotes),
        *(f"  {_queued(entry)}" for entry in state.queue),
        *(
            f"  {failure.preset}: failed {failure.failed_ago:.0f} s ago, {failure.reason}"
            for failure in state.failures
        ),
    ]


def _remote(remote: RemoteState) -> str:
    under_way = f"{remote.leases} of {remote.parallel} requests under way"
    return f"{remote.preset}: on a remote server, {under_way}"


def _queued(entry: QueueEntry) -> str:
    left = f", about {entry.seconds:.0f} s more" if entry.seconds is not None else ""
    return f"{entry.preset}: {entry.waiters} waiting, the first for {entry.oldest:.0f} s{left}"


def _instance(instance: InstanceState) -> str:
    busy = f"{instance.leases} of {instance.parallel} slots busy"
    stale = ", options changed" if instance.stale else ""
    return f"{instance.preset}: {instance.state}, pid {instance.pid or '-'}, {busy}{stale}"
