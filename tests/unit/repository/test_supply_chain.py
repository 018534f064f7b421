"""What is installed is what the locks say, under licences that are allowed, and runs nothing by
being there. docs/supply-chain.md."""

from __future__ import annotations

import json
import re
import sysconfig
from pathlib import Path

import pytest

from scripts import audit, engine, licences
from scripts.lock import LOCKS, SOURCES, locked, normal, pinned

ROOT = Path(__file__).resolve().parents[3]
JAVASCRIPT = ROOT / "tests/e2e/clients/javascript/package-lock.json"
ANEW = "run `make lock`, and `make licences`"
OF_SETUPTOOLS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == "
    "'local'; enabled and __import__('_distutils_hack').add_shim();"
)


@pytest.mark.parametrize("lock", sorted(path.name for path in LOCKS.iterdir()))
def test_everything_that_is_locked_has_a_version_and_hashes(lock: str) -> None:
    found = locked(LOCKS / lock)

    assert found
    for name, (version, hashes) in found.items():
        assert re.fullmatch(r"[0-9][\w.!+-]*", version), name
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name


@pytest.mark.parametrize("lock", sorted(SOURCES))
def test_the_locks_hold_what_the_requirements_say(lock: str) -> None:
    held = {normal(name): version for name, (version, _) in locked(LOCKS / lock).items()}
    wanted = {
        name: version
        for source in SOURCES[lock]
        for name, version in pinned(ROOT / source).items()
        if name != "llama-cpp-python"
    }

    differing = {name: said for name, said in wanted.items() if held.get(name) != said}
    assert differing == {}, f"locks/{lock} is older than requirements*.txt: {ANEW}"


def test_the_served_are_among_the_tested_in_the_same_versions() -> None:
    tested = locked(LOCKS / "test.txt")
    for lock in ("serve.txt", "postgres.txt"):
        for name, (version, _) in locked(LOCKS / lock).items():
            assert tested[name][0] == version, ANEW


def test_the_engine_is_built_from_the_archive_that_is_locked() -> None:
    requirement = engine.engine_requirement()
    version, hashes = locked(LOCKS / "engine.txt")["llama-cpp-python"]

    assert requirement.split()[0] == f"llama-cpp-python=={version}"
    assert engine.with_hashes(requirement).endswith(f" --hash={hashes[-1]}")


def test_setting_up_installs_nothing_without_its_hash_but_the_wheel_that_it_has_built() -> None:
    lines = (ROOT / "scripts/setup.sh").read_text().splitlines()
    bare = [line.strip() for line in lines if re.search(r"\bpip install\b", line)]

    assert [line for line in bare if "--require-hashes" not in line] == [
        'pip install -q --no-deps --force-reinstall "$wheel"'
    ]
    assert [line for line in lines if "npm ci" in line and "--ignore-scripts" in line]


def test_every_licence_is_allowed() -> None:
    packages = licences.packages(*licences.SERVED, "test.txt")
    problems = [licences.refused(name, licences.licence_of(name)) for name in packages]

    assert [problem for problem in problems if problem] == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("LGPL-3.0-only", False),
        ("", False),
    ],
)
def test_a_licence_that_is_not_allowed_is_found(licence: str, allowed: bool) -> None:
    assert (licences.refused("somebody", licence) == "") is allowed


def test_the_list_of_licences_is_that_of_what_is_served() -> None:
    assert (ROOT / "docs/licences.md").read_text() == licences.document(), "run `make licences`"


def test_javascript_is_locked_with_hashes_and_under_allowed_licences() -> None:
    packages = json.loads(JAVASCRIPT.read_text())["packages"]
    found = {name: row for name, row in packages.items() if name}

    assert found
    for name, row in found.items():
        assert row["integrity"].startswith("sha512-"), name
        assert licences.refused(name, row["license"]) == ""


def test_no_package_runs_code_in_every_python_by_being_installed() -> None:
    """Lines of .pth files that begin with `import` are run at each start of Python."""
    folders = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    lines = {
        line.strip()
        for folder in folders
        for path in folder.glob("*.pth")
        for line in path.read_text().splitlines()
        if re.match(r"import[ \t]", line)
    }

    assert lines <= {OF_SETUPTOOLS}


def test_a_hole_is_found_and_a_package_that_nobody_knows_counts_as_not_audited() -> None:
    hole = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    said = {
        "dependencies": [
            {"name": "a", "version": "1.0", "vulns": [hole]},
            {"name": "b", "version": "1.0", "vulns": []},
            {"name": "c", "skip_reason": "not found"},
        ]
    }

    assert audit.python_verdict(said) == (2, 1, ["a 1.0: PYSEC-1, mended in 2.0"])
    assert audit.javascript_verdict({"message": "405"}) == (0, 0, [])
    found = {
        "vulnerabilities": {"a": {"severity": "high", "range": "<2"}},
        "metadata": {"dependencies": {"total": 9}},
    }
    assert audit.javascript_verdict(found) == (9, 0, ["a <2: high"])


def test_what_could_not_be_asked_is_said_and_fails_where_it_must(capsys) -> None:
    assert audit._tell("Python", lambda: audit.Verdict(0, 9, []), strict=False) == 0
    assert "NOT audited" in capsys.readouterr().out
    assert audit._tell("Python", lambda: "no network", strict=True) == 1
    assert audit._tell("Python", lambda: audit.Verdict(9, 0, ["hole"]), strict=False) == 1
    assert audit._tell("Python", lambda: audit.Verdict(9, 0, []), strict=True) == 0
