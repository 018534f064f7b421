"""Are there known holes in what locks/ and package-lock.json hold? (`make audit`)

    python -m scripts.audit            a hole ends with 1; a service that cannot be asked is said
    python -m scripts.audit --strict   that ends with 1 as well

pip-audit and npm ask the services behind PyPI and npm's registry. Where these are out of reach
nothing was audited, and that is what it says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
JAVASCRIPT = ROOT / "tests" / "e2e" / "clients" / "javascript"
SECONDS = 300


class Verdict(NamedTuple):
    """`holes` are lines for people. Asked about nothing, nothing was audited."""

    asked: int
    unknown: int
    holes: list[str]


def main() -> int:
    strict = sys.argv[1:] == ["--strict"]
    ends = [
        _tell("Python", _python, strict=strict),
        _tell("JavaScript", _javascript, strict=strict),
    ]
    return max(ends)


def python_verdict(said: dict[str, Any]) -> Verdict:
    """Of pip-audit's JSON. It passes over a package of which the service knows nothing."""
    rows = said["dependencies"]
    known = [row for row in rows if "skip_reason" not in row]
    holes = [
        f"{row['name']} {row['version']}: {hole['id']}, mended in "
        f"{', '.join(hole.get('fix_versions') or ['no version'])}"
        for row in known
        for hole in row["vulns"]
    ]
    return Verdict(len(known), len(rows) - len(known), holes)


def javascript_verdict(said: dict[str, Any]) -> Verdict:
    """Of npm's JSON; it holds no `metadata` when the registry did not answer."""
    if "metadata" not in said:
        return Verdict(0, 0, [])
    holes = [
        f"{name} {row.get('range', '')}: {row['severity']}"
        for name, row in said["vulnerabilities"].items()
    ]
    return Verdict(said["metadata"]["dependencies"]["total"], 0, holes)


def _tell(what: str, ask: Callable[[], Verdict | str], *, strict: bool) -> int:
    found = ask()
    if isinstance(found, str) or not found.asked:
        why = found if isinstance(found, str) else "it knows none of the packages"
        print(f"audit: {what} was NOT audited: the service cannot be asked from here ({why})")
        return 1 if strict else 0
    for hole in found.holes:
        print(f"audit: {hole}")
    known = f"{found.asked} packages asked about, {len(found.holes)} known holes"
    print(f"audit: {what}: {known}" + (f", {found.unknown} NOT audited" * bool(found.unknown)))
    return 1 if found.holes or (strict and found.unknown) else 0


def _python() -> Verdict | str:
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
    command += ["--progress-spinner", "off", "-f", "json", "-r", str(ROOT / "locks" / "test.txt")]
    said = _json_of(command, ROOT)
    return said if isinstance(said, str) else python_verdict(said)


def _javascript() -> Verdict | str:
    command = ["npm", "audit", "--package-lock-only", "--json", "--fetch-retries=0"]
    said = _json_of(command, JAVASCRIPT)
    if isinstance(said, dict) and "metadata" not in said:
        return str(said.get("message", "npm gives no reason"))[:200]
    return said if isinstance(said, str) else javascript_verdict(said)


def _json_of(command: list[str], folder: Path) -> dict[str, Any] | str:
    """Or why there is none. Both programs end with 1 when they have found a hole."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        said: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:200]
    return said


if __name__ == "__main__":
    sys.exit(main())
