"""Files are handed over: whole or not at all, and not kept for nothing."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from models_registry.downloads import uploads
from models_registry.models import Preset
from proxy.downloads import Downloads

from ..asking import Exchange
from .changing import AWAY, BLOB, DIGEST, asked, never_asked, statuses

pytestmark = pytest.mark.django_db(transaction=True)


async def hand_over(house: Any, admin: Any, data: bytes = BLOB, digest: str = DIGEST) -> Exchange:
    return await asked(house, f"/api/blobs/{digest}", raw=data, headers=admin)


async def test_a_file_is_handed_over_and_becomes_a_model(house, admin) -> None:
    before = await asked(house, f"/api/blobs/{DIGEST}", method="HEAD", headers=admin)
    first = await hand_over(house, admin)
    again = await hand_over(house, admin)
    after = await asked(house, f"/api/blobs/{DIGEST}", method="HEAD", headers=admin)
    wish = {"model": "mine", "files": {"m.gguf": DIGEST}, "parameters": {"num_ctx": 512}}
    made = await asked(house, "/api/create", wish, headers=admin)

    assert [each.status for each in (before, first, again, after)] == [404, 201, 200, 200]
    assert statuses(made)[:2] == ["parsing GGUF", f"using existing layer {DIGEST}"]
    preset = await Preset.objects.select_related("model_file").aget(name="mine")
    assert (preset.ctx_size, preset.source) == (512, "download")
    assert preset.model_file is not None
    assert Path(preset.model_file.path).parent == uploads.folder()
    assert Path(preset.model_file.path).read_bytes() == BLOB  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("data", "digest", "status", "told"),
    [
        (BLOB, AWAY, 400, "digest mismatch"),
        (b"PK\x03\x04" + BLOB, DIGEST, 400, "no GGUF"),
        (b"", DIGEST, 400, "no GGUF came"),
        (b"GG", DIGEST, 400, "no GGUF came"),
        (BLOB, "md5:1", 400, "invalid digest"),
        (BLOB, "sha256:..", 400, "invalid digest"),
    ],
)
async def test_what_is_no_model_file_is_not_kept(
    house, admin, data: bytes, digest: str, status: int, told: str
) -> None:
    exchange = await hand_over(house, admin, data, digest)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert kept() == []


def kept() -> list[Path]:
    return [path for path in uploads.folder().rglob("*") if path.is_file()]


async def test_one_that_is_too_large_or_breaks_off_is_not_kept(house, admin) -> None:
    path = f"/api/blobs/{DIGEST}"
    async with house(never_asked, downloads=Downloads(), max_upload=1000) as h:
        large = await Exchange(h.app, path, body=BLOB, headers=admin).end()
    async with house(never_asked, downloads=Downloads()) as h:
        broken = Exchange(h.app, path, body=None, headers=admin)
        broken.give(BLOB[:1000], more=True)
        broken.leave()
        await broken.end()

    assert (large.status, large.json["code"]) == (413, "body_too_large")
    assert (broken.status, "broke off" in broken.json["error"]) == (400, True)
    assert kept() == []


async def test_a_full_disk_refuses_it_before_it_is_full(
    house, admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "free_bytes", lambda folder: uploads.KEPT_FREE)

    exchange = await hand_over(house, admin)

    assert exchange.status == 413
    assert "there is no room" in exchange.json["error"]
    assert kept() == []


async def test_what_nobody_has_made_a_model_of_goes_with_time(house, admin) -> None:
    await hand_over(house, admin)
    used = b"GGUF used"
    name = f"sha256:{hashlib.sha256(used).hexdigest()}"
    await hand_over(house, admin, used, name)
    wish = {"model": "mine", "files": {"m.gguf": name}}
    assert (await asked(house, "/api/create", wish, headers=admin)).status == 200
    dead = uploads.folder() / ".parts" / "1.upload"
    dead.write_bytes(b"GGUF")
    old = time.time() - uploads.UNUSED_SECONDS - 1
    for path in kept():
        os.utime(path, (old, old))

    await sync_to_async(uploads.sweep)()

    assert [path.name for path in kept()] == [f"sha256-{name[7:]}.gguf"]
