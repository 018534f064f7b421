"""What the OpenAPI document says of all routes alike: who may ask, and how they are refused."""

from __future__ import annotations

from typing import Any

from models_registry.rest.schemas import ErrorAnswer

_SECURITY = {
    "adminKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key with the scope `admin`: `manage.py createkey NAME --admin`.",
    },
    "adminSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "A session of the admin; whatever changes something needs X-CSRFToken too.",
    },
}


def with_what_all_share(document: Any) -> Any:
    shared = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    components = document["components"]
    components["schemas"].update(shared.pop("$defs"))
    components["schemas"]["ErrorAnswer"] = shared
    components["securitySchemes"] = _SECURITY
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["security"] = [{name: []} for name in _SECURITY]
            operation["responses"]["default"] = {
                "description": "Refused: docs/errors.md has the codes.",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}
                },
            }
    return document
