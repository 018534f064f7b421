"""The provider, as django-allauth finds it by this module's name, and what is checked beyond what
django-allauth checks: the signature and the nonce of the ID token, and who signs at all.

The library leaves the signature out because the token comes straight from the provider by TLS. Here
it is checked as well: a proxy that opens TLS is not to make anybody a superuser.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.urls import reverse

from routerproj.sign_on.claims import claim_in
from routerproj.sign_on.conf import sign_on

ALGORITHMS = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
"""Of public keys alone: never one that takes the client's secret or a public key for a secret."""
LEEWAY_SECONDS = 60
KEPT = ("sub", "email", "preferred_username", "name")
"""Of the claims, with the account."""


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # no types in the library
    """One log-in's talk with the provider."""

    _verifier = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        known: dict[str, Any] | None = getattr(self, "_known", None)
        if known is None:
            known = self._known = self._discovered()
        return known

    def _discovered(self) -> dict[str, Any]:
        found = _object(super().openid_config, "what the provider says of itself")
        if found.get("issuer") != sign_on().issuer:
            raise OAuth2Error(f"the provider calls itself {found.get('issuer')!r}")
        return found

    def get_callback_url(self, request: Any, app: Any) -> str:
        url: str = request.build_absolute_uri(reverse("account:sign-on-callback"))
        return url

    def get_access_token_data(
        self, request: Any, app: Any, client: Any, pkce_code_verifier: str | None = None
    ) -> Any:
        self._verifier = pkce_code_verifier or ""
        return super().get_access_token_data(
            request, app, client, pkce_code_verifier=pkce_code_verifier
        )

    def complete_login(self, request: Any, app: Any, token: Any, **kwargs: Any) -> Any:
        try:
            claims = self._claims(app, kwargs["response"]["id_token"])
            if claim_in(claims, sign_on().groups_claim) is None:
                claims = self._with_userinfo(claims, token.token)
            kept = {each: claims.get(each) for each in KEPT}
            login = self.get_provider().sociallogin_from_response(request, {"id_token": kept})
        except (jwt.PyJWTError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise OAuth2Error(f"the ID token: {type(error).__name__}: {error}") from error
        login.claims = claims
        return login

    def _claims(self, app: Any, id_token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(id_token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise OAuth2Error(f"the ID token is signed by {algorithm!r}")
        claims = jwt.decode(
            id_token,
            key=self._key(header.get("kid"), algorithm),
            algorithms=[algorithm],
            audience=app.client_id,
            issuer=sign_on().issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
        if claims.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("the ID token was made for another client")
        if not hmac.compare_digest(str(claims.get("nonce")), nonce_of(self._verifier)):
            raise OAuth2Error("the ID token answers another log-in: its nonce is not ours")
        return claims

    def _key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """The provider's key of that id; one without an id when it has just one."""
        keys = _object(self._fetched(self.openid_config["jwks_uri"]), "its keys")["keys"]
        signing = [key for key in keys if key.get("use", "sig") == "sig"]
        fitting = [key for key in signing if kid is None or key.get("kid") == kid]
        if len(fitting) != 1:
            raise OAuth2Error(f"the provider has {len(fitting)} keys of the id {kid!r}")
        if fitting[0].get("alg", algorithm) != algorithm:
            raise OAuth2Error(f"the key {kid!r} is not for {algorithm}")
        return jwt.PyJWK(fitting[0], algorithm=algorithm)

    def _with_userinfo(self, claims: dict[str, Any], access_token: str) -> dict[str, Any]:
        """Some providers say groups only there. What the signed token says stays."""
        if "userinfo_endpoint" not in self.openid_config:
            return claims
        said = _object(self._fetch_user_info(access_token), "userinfo")
        if said.get("sub") != claims["sub"]:
            raise OAuth2Error("userinfo is about somebody else")
        return {**said, **claims}

    def _fetched(self, url: str) -> Any:
        with get_adapter().get_requests_session() as session:
            answer = session.get(url)
            answer.raise_for_status()
            return answer.json()


class Provider(OpenIDConnectProvider):  # type: ignore[misc]  # no types in the library
    id = "oidc"
    oauth2_adapter_class = Adapter

    def get_default_scope(self) -> list[str]:
        return list(sign_on().scopes)

    def get_pkce_params(self) -> dict[str, Any]:
        """And the nonce: made of the verifier, which waits in the session for the answer."""
        params: dict[str, Any] = super().get_pkce_params()
        return {**params, "nonce": nonce_of(params["code_verifier"])}


def nonce_of(verifier: str) -> str:
    return hashlib.sha256(b"nonce " + verifier.encode()).hexdigest()


def _object(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise OAuth2Error(f"{what} is no object")
    return said


provider_classes = [Provider]
