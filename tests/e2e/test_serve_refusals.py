"""What `manage.py serve` refuses to start with: exit code 2, and the name of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateway import serve
from tests.support.processes import processes_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--no-such-option", "1"], "--no-such-option"),
        (["-xyz"], "-xyz"),
        (["--path", "public"], "--path"),
        (["--ssl-key-file", "key.pem"], "--ssl-key-file"),
        (["--tools", "all"], "--tools"),
        (["--models-preset", "models.ini"], "--models-preset"),
        (["--models-memory-margin", "-1"], "--models-memory-margin"),
        (["--ctx-size", "many"], "--ctx-size"),
        (["--no-auth", "--host", "0.0.0.0"], "--no-auth"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_option_that_cannot_be_taken_is_refused_by_its_name(
    tmp_path: Path, args: list[str], named: str
) -> None:
    with serve(tmp_path / "var", ["--port", "0", *args]) as refused:
        refused.process.wait(60)

    assert refused.process.returncode == 2
    assert named in "\n".join(refused.output)
    assert processes_of(refused.var) == []
