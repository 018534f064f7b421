"""One gateway for the folder, with two teams that know nothing of each other. Tests leave it as
they found it, but for what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.gateway import SLOW, Gateway, gateway

HEADERS_LIMIT = 4096
SECRETS = {
    "HF_TOKEN": "hf_CANARYtokenCANARYtoken",
    "CORRAL_SECRET_KEY": "canary-secret-" + "s" * 50,
    "DATABASE_PASSWORD": "canary-password",
}
TEAMS = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from proxy.keys import create_key
from proxy.models import ApiKey, Membership, Team
reds, blues = create_key("red", "reds"), create_key("blue", "blues")
admin = create_key("robot-2", scopes=["infer", "read", "load", "admin"])
expired = create_key("old", "reds", expires_at=timezone.now() - timedelta(days=1))
revoked = create_key("gone", "reds")
ApiKey.objects.filter(name="gone").update(revoked_at=timezone.now())
Team.objects.filter(name="blues").update(allowed=["beta"])
User.objects.create_user("plain", password="canary-password-of-plain")
print(reds, blues, admin, expired, revoked)
"""


@dataclass(frozen=True)
class House:
    """`reds` and `blues` are usual keys of two teams; the blues may use `beta` only. `admin` may do
    everything; the rest opens nothing."""

    gateway: Gateway
    reds: str
    blues: str
    admin: str
    expired: str
    revoked: str

    @property
    def port(self) -> int:
        return self.gateway.client.port


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    env = {
        **SECRETS,
        "CORRAL_MAX_BODY": str(1 << 20),
        "CORRAL_MAX_HEADERS": str(HEADERS_LIMIT),
        "CORRAL_HEADER_TIMEOUT": "2",
        "CORRAL_EVENT_LOG": "1",
    }
    models = {"alpha": {"seed": 1}, "beta": {"seed": 2}, "slow": SLOW}
    args = ["--models-max", "2", "--ollama-port", "0"]
    folder = tmp_path_factory.mktemp("house")
    with gateway(folder, args=args, env=env, models=models, key="none") as running:
        done = running.manage("shell", "--no-imports", "-c", TEAMS, CORRAL_PAGELESS="1")
        assert done.returncode == 0, done.stderr
        running.client.key = ""
        yield House(running, *done.stdout.split()[-5:])
