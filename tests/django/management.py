"""Asking the management API as a program does, and what its tests need around it."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from proxy.keys import create_key

BASE = "/router/api"


class Answer:
    """Status, headers and the decoded body."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.headers = response.headers
        self.text: str = response.content.decode()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        self.json: Any = json.loads(self.text) if self.text and is_json else None

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def param(self) -> str | None:
        param: str | None = self.json["error"]["param"]
        return param

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


class Manager:
    """One asker. `key` is a key's text; without it `client`'s session counts."""

    def __init__(self, key: str = "", client: Client | None = None) -> None:
        self.client = client or Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        return Answer(
            self.client.generic(
                method,
                BASE + path,
                b"" if body is None else body if isinstance(body, bytes) else json.dumps(body),
                content_type="application/json",
                headers={**self.headers, **(headers or {})},
            )
        )

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Answer:
        return self.ask("POST", path, body)

    def patch(self, path: str, body: Any) -> Answer:
        return self.ask("PATCH", path, body)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)


def admin_key(name: str = "robot") -> str:
    return create_key(name, scopes=["admin"])


def session_of(user: User, *, csrf: bool = False) -> Client:
    client = Client(raise_request_exception=False, enforce_csrf_checks=csrf)
    client.force_login(user)
    return client


def staff(*permissions: str) -> User:
    """`app.codename` each."""
    user = User.objects.create_user("limited", is_staff=True)
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
    return user
