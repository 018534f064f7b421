"""A stand-in for an OpenID provider, on loopback: real HTTP, ID tokens signed by its own key. It
lets in whoever `person` is, without asking, and can be told to lie."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "corral", "hush-hush of the client"
Claims = dict[str, Any]


def signing_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class StandInProvider:
    """`person`: the claims about who logs in next. `sign` makes a token of the claims."""

    issuer: str = ""
    calls_itself: str = ""
    person: Claims = field(default_factory=dict)
    userinfo: Claims = field(default_factory=dict)
    key: rsa.RSAPrivateKey = field(default_factory=signing_key)
    sign: Callable[[Claims], str | None] = lambda claims: ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    exchanged: int = 0

    def honest(self) -> None:
        """As it was at the start."""
        self.calls_itself, self.userinfo, self.sign = self.issuer, {}, self.signed

    def signed(
        self, claims: Claims, *, key: Any = None, algorithm: str = "RS256", kid: str = "one"
    ) -> str:
        return jwt.encode(claims, key or self.key, algorithm=algorithm, headers={"kid": kid})

    # What it is asked ------------------------------------------------------------------

    def discovery(self) -> Claims:
        paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
        return {
            "issuer": self.calls_itself,
            "jwks_uri": f"{self.issuer}/keys",
            **{f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in paths.items()},
        }

    def keys(self) -> Claims:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser goes back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]})

    def token(self, asked: dict[str, str]) -> Claims | None:
        """None for whom nothing is given: a code is good once, for who began with it."""
        began = self.codes.pop(asked.get("code", ""), None)
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if began is None or began["code_challenge"] != challenge:
            return None
        if (asked["client_secret"], asked["redirect_uri"]) != (SECRET, began["redirect_uri"]):
            return None
        self.exchanged += 1
        now = int(time.time())
        times = {"iat": now, "exp": now + 300}
        claims = {"iss": self.issuer, "aud": CLIENT, "nonce": began["nonce"], **times}
        token = self.sign({**claims, **self.person})
        answer = {"access_token": "of the stand-in", "token_type": "Bearer"}
        return answer if token is None else {**answer, "id_token": token}


@contextmanager
def oidc_stand_in() -> Iterator[StandInProvider]:
    provider = StandInProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(_first(parts.query)))
                self.end_headers()
                return
            answers: dict[str, Callable[[], Claims]] = {
                "/.well-known/openid-configuration": provider.discovery,
                "/keys": provider.keys,
                "/userinfo": lambda: provider.userinfo or provider.person,
            }
            self._json(answers[parts.path]())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._json(provider.token(_first(body)))

        def _json(self, said: Claims | None) -> None:
            body = json.dumps(said if said is not None else {"error": "invalid_grant"}).encode()
            self.send_response(200 if said is not None else 400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    provider.honest()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
