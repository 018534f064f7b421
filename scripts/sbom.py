"""The bill of materials of what is served: var/sbom.json, in CycloneDX's form (`make sbom`).

cyclonedx-py makes it of the locks, with the hashes; licences are added as the packages say them,
and llama.cpp, which lies inside the engine's archive.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.licences import licence_of
from scripts.lock import LOCKS

ROOT = Path(__file__).resolve().parent.parent

PARTS = ("serve.txt", "engine.txt", "postgres.txt")
LLAMA_CPP = {
    "bom-ref": "llama.cpp",
    "type": "library",
    "name": "llama.cpp",
    "description": "inside llama-cpp-python's archive, of the version that this carries",
    "licenses": [{"license": {"id": "MIT"}}],
}


def main() -> int:
    target = Path(os.environ.get("CORRAL_VAR") or ROOT / "var") / "sbom.json"
    lines = {line: None for part in PARTS for line in _entries(part)}
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sbom: cyclonedx-py ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    bill: dict[str, Any] = json.loads(done.stdout)
    for component in bill["components"]:
        licence = licence_of(component["name"])
        component["licenses"] = [{"license": {"name": licence}}]
    bill["components"].append(LLAMA_CPP)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.write_text(json.dumps(bill, indent=1) + "\n")
    print(f"sbom: {target}, {len(bill['components'])} components")
    return 0


def _entries(part: str) -> list[str]:
    """Each package with its hashes on one line: what two locks hold is the same line."""
    text = (LOCKS / part).read_text().replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line[:1].isalnum()]


if __name__ == "__main__":
    sys.exit(main())
