from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.conf import ProxyConfig
from proxy.consumers import GatewayApp

from .fakes import FakeChild, FakeNotes, FakeScheduler, KeptUsage, NoDownloads, Script, fake_child


class House:
    """A gateway between a scripted child and a scheduler that grants its socket."""

    def __init__(
        self,
        app: GatewayApp,
        scheduler: FakeScheduler,
        children: list[FakeChild],
        usage: KeptUsage,
        notes: FakeNotes,
    ) -> None:
        self.app = app
        self.usage = usage
        self.notes = notes
        self.scheduler = scheduler
        self.children = children
        self.child = children[0]


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., Any]:
    """`async with house(script, ...)`: one child a script, granted in this order."""

    @asynccontextmanager
    async def opened(
        *scripts: Script, keys: Any = None, downloads: Any = None, **settings: Any
    ) -> AsyncIterator[House]:
        config = ProxyConfig(
            control_socket=tmp_path / "control.sock",
            temp_folder=tmp_path / "tmp",
            usage_folder=tmp_path / "usage",
            secret_key="for tests",
            **{"no_auth": True, **settings},
        )
        async with AsyncExitStack() as stack:
            paths = [tmp_path / f"{number}.sock" for number in range(len(scripts))]
            children = [
                await stack.enter_async_context(fake_child(path, script))
                for path, script in zip(paths, scripts, strict=True)
            ]
            scheduler = FakeScheduler([str(path) for path in paths])
            usage, notes = KeptUsage(), FakeNotes()
            app = GatewayApp(
                config,
                scheduler=scheduler,  # type: ignore[arg-type]
                keys=keys,
                downloads=downloads or NoDownloads(),  # type: ignore[arg-type]
                usage=usage,  # type: ignore[arg-type]
                notes=notes,  # type: ignore[arg-type]
            )
            yield House(app, scheduler, children, usage, notes)
            await app.close()

    return opened
