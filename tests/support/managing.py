"""A program with an admin key: what it reads and changes through the management API."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.asking import Answer
from tests.support.gateway import Gateway
from tests.support.polling import eventually

MIB = 1 << 20


class Manager:
    def __init__(self, running: Gateway) -> None:
        self._client = running.client
        self._key = running.admin_key

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        return self._client.request(method, f"/router/api{path}", body, key=self._key)

    def device(self, name: str = "Host") -> dict[str, Any]:
        """As the ledger sees it; empty while there is none of this name."""
        items = self("GET", "/devices").json["items"]
        return next((dict(each) for each in items if each["device"] == name), {})

    def fit(self, preset: str) -> dict[str, Any]:
        """What would fit of a preset as it is saved: `now`, `empty`, `estimated`."""
        return dict(self("GET", f"/presets/{preset}/fit").json)

    def fit_edited(self, preset: str, **edit: Any) -> dict[str, Any]:
        """The same with these fields changed."""
        return dict(self("POST", "/fit", {"preset": preset, **edit}).json)

    def change(self, preset: str, **fields: Any) -> None:
        answer = self("PATCH", f"/presets/{preset}", fields)
        assert answer.status == 200, answer.json

    def make(self, name: str, like: str, **fields: Any) -> None:
        """Another preset of the model file that `like` runs."""
        file = self("GET", f"/presets/{like}").json["model_file"]
        answer = self("POST", "/presets", {"name": name, "model_file": file, **fields})
        assert answer.status == 201, answer.json

    def measurements(self, preset: str) -> list[dict[str, Any]]:
        """Those that count for it as it is now."""
        return list(self("GET", f"/measurements?preset={preset}").json["items"])

    def until_measured(self, *presets: str, seconds: float = 60.0) -> None:
        """Until the scheduler goes by measurements of these."""
        for preset in presets:
            eventually(partial(self._is_measured, preset), f"{preset} is measured", seconds)

    def _is_measured(self, preset: str) -> bool:
        told = self.fit(preset)
        return not told["estimated"] and "not known yet" not in told["empty"]["problem"]
