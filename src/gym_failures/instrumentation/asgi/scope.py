"""What the ASGI scope of a request says about it: method, route, the name of its operation, a report that it brings."""

import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from opentelemetry import trace

from gym_failures import limits
from gym_failures.guard import Guard
from gym_failures.semconv import HEADER_NAME
from gym_failures.text import cut

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

HEADER: Final = HEADER_NAME.encode("ascii")

_LENGTH: Final = len(HEADER)
HTTP_ROUTE: Final = "http.route"
_SERVICE_NAME: Final = "service.name"
_UNKNOWN_SERVICE: Final = "unknown_service"  # How OpenTelemetry's SDK calls a service that nobody named.
_OPERATION: Final = Guard("operation")


def is_report(name: bytes) -> bool:
    """Tell whether a header of that name carries a report; not every server and app lowers the names."""
    return name.lower() == HEADER


def has_report(headers: Headers) -> bool:
    """Tell whether one of the headers carries a report."""
    for name, _ in headers:  # noqa: SIM110 - a generator costs twice as much, and each request and each reply is asked
        if len(name) == _LENGTH and is_report(name):
            return True
    return False


def header_value(headers: Headers, wanted: bytes) -> bytes | None:
    """Return the first value of the header `wanted`, a name in lower case; None where there is none."""
    return next((value for name, value in headers if name.lower() == wanted), None)


def operation_of(scope: Scope) -> str | None:
    """Return ``<service> <METHOD> <route template>`` as far as it is known; never a path with its values.

    A path that no route matched names nothing: anyone can ask for any path.
    """
    with _OPERATION:
        parts = (_service(), str(scope.get("method") or ""), _route(scope))
        return cut(" ".join(part for part in parts if part), limits.NAME_LENGTH) or None
    return None


def _service() -> str:
    """Return the service's name from the current span's resource, the provider's, or the environment."""
    for holder in (trace.get_current_span(), trace.get_tracer_provider()):
        attributes = getattr(getattr(holder, "resource", None), "attributes", None) or {}
        name = attributes.get(_SERVICE_NAME)
        if isinstance(name, str) and not name.startswith(_UNKNOWN_SERVICE):
            return name
    return os.environ.get("OTEL_SERVICE_NAME", "")


def _route(scope: Scope) -> str:
    """Return the template of the route that was matched.

    FastAPI leaves the route itself, and for a route of an included router, whose own template lacks the router's
    prefix, the full one beside it. Of other frameworks the span knows it.
    """
    included = scope.get("fastapi")
    context = included.get("effective_route_context") if isinstance(included, dict) else None
    for holder in (context, scope.get("route")):
        for attribute in ("path_format", "path"):
            template = getattr(holder, attribute, None)
            if isinstance(template, str) and template:
                return template
    attributes = getattr(trace.get_current_span(), "attributes", None) or {}
    return str(attributes.get(HTTP_ROUTE, ""))
