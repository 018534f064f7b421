"""The management API under /router/api/: the apps' routes put together.

Each app has its routes in api.py and their shapes in schemas.py. What is refused becomes an answer
in api_answers.py, and what the OpenAPI document says of all routes alike is added in api_schema.py.
"""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI

from models_registry.access import Needs
from models_registry.downloads.api import downloads
from models_registry.rest import api as registry
from models_registry.rest import import_api as importing
from models_registry.rest import sharing_api as sharing
from proxy.rest import api as access
from proxy.rest.audit_api import audit
from proxy.rest.limits_api import limits
from proxy.rest.members_api import members
from proxy.usage_pages import api as usage
from routerproj.api_answers import (
    answer_refusals,
    for_admins,
    in_our_shape,
    known_names_only,
)
from routerproj.api_schema import with_what_all_share
from scheduler import api as scheduler


class ManagementAPI(NinjaAPI):
    def get_openapi_schema(self, **kwargs: Any) -> Any:
        return with_what_all_share(super().get_openapi_schema(**kwargs))


api = ManagementAPI(
    title="Corral's management API",
    version="1",
    description="What the admin's pages can do, for programs: docs/rest.md.",
    urls_namespace="management",
    auth=Needs(),  # a route that names no permission is for superusers only
    docs_decorator=for_admins,
)
answer_refusals(api)
api.add_decorator(known_names_only)

api.add_router("/models", registry.models)
api.add_router("/rescan", registry.rescan)
api.add_router("/presets", registry.presets)
api.add_router("/fit", registry.fit)
api.add_router("/aliases", registry.aliases)
api.add_router("", importing.files)
api.add_router("/groups", sharing.groups)
api.add_router("/profiles", sharing.profiles)
api.add_router("/global-preset", sharing.global_preset)
api.add_router("/measurements", registry.measurements)
api.add_router("/downloads", downloads)
api.add_router("/record", scheduler.record)
api.add_router("/keys", access.keys)
api.add_router("/teams", access.teams)
api.add_router("/members", members)
api.add_router("/usage", usage.usage)
api.add_router("/limits", limits)
api.add_router("/audit", audit)
api.add_router("", scheduler.live)

urls = in_our_shape(api.urls)
