"""What requests name by an address is fetched: from hosts that the administrator has named, at
public addresses, with every redirect checked. The rules are those of downloads."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from models_registry.downloads import planned
from models_registry.downloads.addresses import Rules, origin_of, rules_of
from models_registry.downloads.wire import Ended, Line, Trouble, ask
from proxy.media.looking import Address
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

MOST_ADDRESSES = 16
"""In one request."""
MOST_BYTES = 10 << 20
"""Of one image, as llama-server itself has it."""
MOST_IN_ALL = 32 << 20
SECONDS = 10.0
"""For all of a request's."""

_AT_ONCE = 8
_READ_AT_ONCE = 1 << 18
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Fetched:
    """`type` as its server has said, `data` in base64."""

    type: str
    data: str

    @property
    def data_url(self) -> str:
        return f"data:{self.type};base64,{self.data}"


class Fetching:
    """One per process, with threads of its own: a slow name server holds up nothing else."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """`hosts` are entries of CORRAL_MEDIA_HOSTS; without any nothing is fetched."""
        self._rules = rules_of(hosts) if hosts else None
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def fetched(self, addresses: Sequence[Address]) -> dict[str, Fetched]:
        """By address. Nothing is asked for before all of them are allowed. Raises Refused."""
        rules = self._rules
        if rules is None:
            raise _refused(addresses[0], "addresses in requests are not fetched here")
        if len(addresses) > MOST_ADDRESSES:
            raise _refused(addresses[0], f"and there are more than {MOST_ADDRESSES} of them")
        for address in addresses:
            _check(address, rules)
        return await self._all(list({each.url: each for each in addresses}.values()), rules)

    async def _all(self, addresses: Sequence[Address], rules: Rules) -> dict[str, Fetched]:
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="media")
        lines = [Line() for _ in addresses]
        try:
            async with asyncio.timeout(SECONDS):
                found = await asyncio.gather(
                    *(
                        loop.run_in_executor(self._threads, partial(_fetch, address, rules, line))
                        for address, line in zip(addresses, lines, strict=True)
                    )
                )
        except TimeoutError as error:
            raise Refused(
                "media_unavailable",
                f"What the request names by an address did not come within {SECONDS:g} s.",
            ) from error
        finally:
            for line in lines:
                line.end()
        if sum(len(each.data) for each in found) > MOST_IN_ALL:
            raise _refused(addresses[0], f"and together they are over {MOST_IN_ALL} bytes")
        return {address.url: each for address, each in zip(addresses, found, strict=True)}


def _check(address: Address, rules: Rules) -> None:
    try:
        rules.check(origin_of(address.url))
    except planned.Refused as error:
        raise _refused(address, "nothing is fetched from there") from error


def _fetch(address: Address, rules: Rules, line: Line) -> Fetched:
    """In a thread. Raises Refused, which tells a client nothing of addresses inside of this
    network: names may lead to them."""
    shown = _host(address)
    try:
        with closing(ask(address.url, rules, line, {})) as answer:
            type = answer.headers.get_content_type()
            if not type.startswith(f"{address.kind}/"):
                raise _refused(address, f"and {shown} has {type[:_SHOWN]} there")
            data = b""
            while part := answer.read(_READ_AT_ONCE):
                data += part
                if len(data) > MOST_BYTES:
                    raise _refused(address, f"and it is over {MOST_BYTES} bytes")
            if answer.headers.get("Content-Length", str(len(data))) != str(len(data)):
                raise Trouble("the answer broke off")
    except planned.Refused as error:
        logger.info("media at %s are refused: %s", shown, error)
        raise _refused(address, f"and {shown} cannot be asked, or does not have it") from error
    except (Trouble, Ended) as error:
        logger.info("media at %s could not be fetched: %s", shown, error)
        raise Refused(
            "media_unavailable",
            f"`{address.member}` could not be fetched from {shown}: ask again, or send the data.",
            retry_after_seconds=1.0,
        ) from error
    return Fetched(type, base64.b64encode(data).decode())


def _host(address: Address) -> str:
    return origin_of(address.url).host[:_SHOWN]


def _refused(address: Address, why: str) -> Refused:
    """It shows of the address what cannot be a secret."""
    shown = address.url.partition("?")[0][:_SHOWN]
    return Refused(
        "media_refused",
        f"`{address.member}` is an address ({shown!r}), {why}. Send the data themselves, as a "
        "data: URL or in base64, or have an administrator name the host in CORRAL_MEDIA_HOSTS.",
    )
