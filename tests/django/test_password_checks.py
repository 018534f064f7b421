"""A flood of log-ins does not take the machine from the answers under way."""

from __future__ import annotations

import asyncio

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from routerproj.password_checks import AT_ONCE, MOST_WAITING, FewPasswordChecks

LOGIN = "/admin/login/"


class Checks:
    """Stands where the log-in view stands; each check takes until `go` is set."""

    def __init__(self) -> None:
        self.now = self.most = self.done = 0
        self.go = asyncio.Event()
        self.limited = FewPasswordChecks(self.check)

    async def check(self, request: HttpRequest) -> HttpResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1
        self.done += 1
        return HttpResponse("checked")

    def ask(self, path: str = LOGIN, method: str = "POST") -> asyncio.Task[HttpResponse]:
        request = RequestFactory().generic(method, path)
        return asyncio.ensure_future(self.limited(request))  # type: ignore[arg-type]


async def test_few_are_checked_at_once_and_all_that_wait_in_the_end() -> None:
    checks = Checks()
    asked = [checks.ask() for _ in range(AT_ONCE + MOST_WAITING)]
    await asyncio.sleep(0)
    checks.go.set()

    answers = await asyncio.gather(*asked)

    assert [answer.status_code for answer in answers] == [200] * len(asked)
    assert checks.most == AT_ONCE


async def test_more_than_may_wait_are_told_when_to_come_again() -> None:
    checks = Checks()
    asked = [checks.ask() for _ in range(60)]
    await asyncio.sleep(0.01)

    refused = [task.result() for task in asked if task.done()]
    checks.go.set()
    await asyncio.gather(*asked)

    assert len(refused) == 60 - AT_ONCE - MOST_WAITING
    assert {(answer.status_code, answer["Retry-After"]) for answer in refused} == {(503, "5")}
    assert checks.done == AT_ONCE + MOST_WAITING


async def test_a_client_that_left_gives_its_place_back() -> None:
    checks = Checks()
    left = [checks.ask() for _ in range(AT_ONCE + MOST_WAITING)]
    await asyncio.sleep(0.01)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    checks.go.set()

    assert (await checks.ask()).status_code == 200


@pytest.mark.parametrize(("path", "method"), [(LOGIN, "GET"), ("/admin/", "POST")])
async def test_what_checks_no_password_is_not_held_up(path: str, method: str) -> None:
    checks = Checks()
    for _ in range(AT_ONCE + MOST_WAITING):
        checks.ask()
    others = [checks.ask(path, method) for _ in range(5)]
    await asyncio.sleep(0.01)

    assert checks.now == AT_ONCE + len(others)
    checks.go.set()
    await asyncio.gather(*others)


def test_it_stands_in_the_way_of_djangos_requests() -> None:
    assert "routerproj.password_checks.FewPasswordChecks" in settings.MIDDLEWARE
