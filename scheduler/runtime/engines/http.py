"""What is asked of a child over HTTP, at a Unix socket's path or at `host:port`."""

from __future__ import annotations

import errno
import logging

import aiohttp
import msgspec

logger = logging.getLogger(__name__)

_NOT_READ = (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError, RecursionError)
_OUR_OWN_WANT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def asking(address: str, seconds: float | None = None) -> aiohttp.ClientSession:
    is_path = address.startswith("/")
    connector = (
        aiohttp.UnixConnector(address, force_close=True)
        if is_path
        else aiohttp.TCPConnector(force_close=True)
    )
    return aiohttp.ClientSession(
        base_url="http://localhost" if is_path else f"http://{address}",
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=seconds),
    )


async def answers(address: str, path: str) -> bool | None:
    """Whether anything is answered there, for as long as it takes; None when it could not be asked
    for a reason of our own."""
    try:
        async with asking(address) as session, session.get(path):
            return True
    except OSError as failure:
        return None if _is_our_own(failure) else False
    except aiohttp.ClientError:
        return False


async def post(address: str, path: str, body: object) -> tuple[int, str]:
    """Its status, and what is wrong where it is not 200; (0, why) when no answer came."""
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            asking(address) as session,
            session.post(path, data=msgspec.json.encode(body), headers=headers) as answer,
        ):
            said = (await answer.read()).decode(errors="replace")
            return answer.status, f"POST {path} was answered {answer.status}: {said[:300]}"
    except (aiohttp.ClientError, OSError) as failure:
        return 0, f"POST {path} was not answered: {failure}"


async def get(address: str, path: str, seconds: float) -> object:
    """The decoded answer; None when there was none that could be read."""
    try:
        async with asking(address, seconds) as session, session.get(path) as answer:
            if answer.status != 200:
                return None
            return msgspec.json.decode(await answer.read())
    except _NOT_READ as failure:
        logger.debug("no reading of %s: %s", address, failure)
        return None


def _is_our_own(failure: OSError) -> bool:
    """No descriptor, no memory: that says nothing of whom we asked."""
    cause = getattr(failure, "os_error", failure)  # aiohttp wraps it
    return isinstance(cause, OSError) and cause.errno in _OUR_OWN_WANT
