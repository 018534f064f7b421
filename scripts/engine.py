"""Builds llama-cpp-python with the native llama-server into a wheel, once per machine.

    python scripts/engine.py           prints the wheel's path; builds it if need be
    python scripts/engine.py --again   builds it anew, installs it and checks it (`make engine`)
    python scripts/engine.py --check   does the installed llama-server run?

Progress and complaints go to stderr.

The wheel is kept in ${XDG_CACHE_HOME:-~/.cache}/corral/, keyed by what decides its content: version
and build settings (the line in requirements.txt), CMAKE_ARGS, Python, and the CPU's flags, because
llama.cpp is compiled for the very CPU it is built on. pip's own wheel cache cannot be used: it
ignores build settings and would hand out a wheel without the server. Standard library only.

Intel's AMX is left out: with it, this version crashes on the first quantised model (its threads ask
the kernel for no permission, and the compiler drops the tiles' configuration: llama.cpp's pull
request 26954, seen here as SIGILL and SIGSEGV in ggml_backend_amx_mul_mat).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

WITHOUT_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements.txt"
LOCK = ROOT / "locks" / "engine.txt"
"""The hashes of the archives that it may be built from."""
LAST_LINES = 40


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        return check()
    again = sys.argv[1:] == ["--again"]
    requirement = engine_requirement()
    folder = cache_folder() / f"engine-{key(requirement)}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may ask at once
        wheel = find(folder)
        if wheel is None or again:
            if not build(requirement, folder):  # an older wheel stays when it fails
                return 1
            wheel = find(folder)
    if wheel is None:
        say(f"the build ended well but left no wheel in {folder}")
        return 1
    if again:
        return install(wheel)
    print(wheel)
    return 0


def install(wheel: Path) -> int:
    """Over what is installed, then checked."""
    say("installing the engine")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    done = subprocess.run([*command, "--force-reinstall", "--no-deps", str(wheel)])
    if done.returncode != 0:
        return 1
    return check()


def engine_requirement() -> str:
    lines = REQUIREMENTS.read_text().splitlines()
    return next(line for line in lines if line.startswith("llama-cpp-python=="))


def with_hashes(requirement: str) -> str:
    """pip then takes no other archive. They are no part of the key: the version is."""
    hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", LOCK.read_text())
    assert hashes, f"{LOCK} holds no hash: make lock"
    return " ".join([requirement, *hashes])


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corral"


def key(requirement: str) -> str:
    version = re.match(r"llama-cpp-python==([^ ]+)", requirement)
    assert version, requirement
    parts = [
        requirement,
        os.environ.get("CMAKE_ARGS", ""),
        platform.machine(),
        sys.implementation.cache_tag or "",
        cpu_flags(),
    ]
    if has_amx():
        parts.append(WITHOUT_AMX)
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{version[1]}-{digest}"


def cpu_flags() -> str:
    """The instruction sets of the first CPU (x86 calls them flags, ARM Features)."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(value.split()))
    return platform.processor()


def has_amx() -> bool:
    return "amx_tile" in cpu_flags().split()


def build_environment() -> dict[str, str]:
    environment = dict(os.environ)
    if has_amx():
        for name in ("CFLAGS", "CXXFLAGS"):
            environment[name] = f"{environment.get(name, '')} {WITHOUT_AMX}".strip()
    return environment


def find(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("llama_cpp_python-*.whl"))), None)


def build(requirement: str, folder: Path) -> bool:
    """pip wheel, into `folder` last: a build that was cut leaves no wheel behind."""
    say("building the engine: about 10 minutes on 2 cores, once for this machine")
    draft = folder / "draft"
    source = folder / "requirement.txt"
    source.write_text(with_hashes(requirement) + "\n")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-v"]
    command += ["--no-cache-dir", "--no-deps", "--require-hashes", "-w", str(draft)]
    command += ["-r", str(source)]
    log = folder / "build.log"
    started = time.monotonic()
    with (
        log.open("w") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=build_environment(),
        ) as pip,
    ):
        assert pip.stdout
        for line in pip.stdout:
            file.write(line)
            show_progress(line, time.monotonic() - started)
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    wheel = find(draft)
    if pip.returncode != 0 or wheel is None:
        tail = log.read_text().splitlines()[-LAST_LINES:]
        say("the build failed; its last lines were:\n  " + "\n  ".join(tail))
        say(f"the whole log: {log}")
        return False
    wheel.rename(folder / wheel.name)
    say(f"built in {time.monotonic() - started:.0f} s")
    return True


_last_shown = -1


def show_progress(line: str, seconds: float) -> None:
    """Ninja says `[12/274] Building …`. Rewrites one line on a terminal; every tenth in a log."""
    global _last_shown
    step = re.search(r"\[(\d+)/(\d+)\]", line)
    if not step:
        return
    done, total = int(step[1]), int(step[2])
    if sys.stderr.isatty():
        sys.stderr.write(f"\rsetup: engine {done}/{total}, {seconds:.0f} s ")
        sys.stderr.flush()
    elif done * 10 // total != _last_shown:
        _last_shown = done * 10 // total
        say(f"engine {done}/{total}, {seconds:.0f} s")


def check() -> int:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        say("llama-cpp-python is not installed")
        return 1
    server = Path(spec.origin).parent.parent / "bin" / "llama-server"
    if not server.exists():
        say(f"{server} is missing: the wheel was built without its tools")
        return 1
    answer = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=60)
    if answer.returncode != 0:
        say(f"{server} ends with {answer.returncode}: {(answer.stderr or answer.stdout)[-400:]}")
        return 1
    return 0


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
