"""The Content-Security-Policy of every page. Pure."""

from __future__ import annotations


def content_security_policy(form_targets: tuple[str, ...] = ()) -> str:
    """For every page. Scripts come from here only, and none stands in a page: a name that carries
    one is not run. `unsafe-eval` is for Alpine, which the admin's look is made with; styles within
    a page are its own too. `form_targets` are further origins that a form may lead to."""
    rules = {
        "default-src": "'self'",
        "script-src": "'self' 'unsafe-eval'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self' data:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": " ".join(("'self'", *form_targets)),
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())
