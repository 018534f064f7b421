"""Single sign-on by OpenID Connect: nothing of it is imported unless CORRAL_OIDC_ISSUER is set."""
