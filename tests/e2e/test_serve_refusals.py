"""What `manage.py serve` refuses to start with: exit code 2, and the name of what is wrong.

More of them are in tests/django/test_serve_options.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateway import serve
from tests.support.prepared import first_state
from tests.support.processes import processes_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--tools", "all"], "--tools"),
        (["--models-preset", "models.ini"], "--models-preset"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_option_that_cannot_be_taken_is_refused_by_its_name(
    tmp_path: Path, args: list[str], named: str
) -> None:
    first_state(tmp_path / "var")
    with serve(tmp_path / "var", ["--port", "0", *args]) as refused:
        refused.process.wait(60)

    assert refused.process.returncode == 2
    assert named in "\n".join(refused.output)
    assert processes_of(refused.var) == []
