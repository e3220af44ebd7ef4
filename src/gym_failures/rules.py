"""Which exceptions of other libraries mean which kind: one row each, recognised by the names of their classes.

No library is imported here, and no message text is interpreted. `docs/reference/classification.md` shows the table.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gym_failures import foreign, kinds
from gym_failures.kinds import FailureBoundary

Chooser = Callable[[Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Say what one family of exceptions means.

    `types` are names of classes, matched against the class of an exception and its bases, nearest first: the module
    (or the start of it, so that ``httpx.ConnectError`` is enough) and the class. Those of ``builtins`` need no module.

    `kind` None leaves the kind to the HTTP status, and without one to the boundary. `message` says what may be kept of
    the error as text: None, when `str()` of it is safe, as for the application's own; else attribute paths such as
    ``body.message``, of which the first that holds text is taken, or a function. An error with a `message` is recorded
    as an SDK's error. `text` makes of `str()` what is kept of it, None all. `status` and `code` are attribute paths of
    an HTTP status and of a provider's error code. `inside` are paths of an error within this one that can tell a more
    exact kind.

    A rule holds only at `boundaries` (empty: at all), for an OSError with one of the `errnos` (empty: any), and `when`
    that function returns true. `provider` says that the peer is a provider whatever the boundary, so that its status
    401 is a provider that is unavailable. Raises ValueError when a collection is given as a bare text.
    """

    types: tuple[str, ...]
    kind: str | None = None
    message: tuple[str, ...] | Chooser | None = None
    text: Callable[[str], str] | None = None
    status: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    boundaries: tuple[FailureBoundary, ...] = ()
    errnos: frozenset[int] = frozenset()
    when: Callable[[Any], bool] | None = None
    provider: bool = False

    def __post_init__(self) -> None:
        """Make tuples of other collections, and refuse a bare text: its letters would be taken for the members."""
        for name in ("types", "message", "status", "code", "inside", "boundaries", "errnos"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(f"{name} of a rule is a tuple, not the text {value!r}")  # noqa: TRY004 - a value
            if value is not None and not callable(value):
                object.__setattr__(self, name, frozenset(value) if name == "errnos" else tuple(value))


def _errnos(*names: str) -> frozenset[int]:
    """Return those of the error numbers that this platform has."""
    return frozenset(number for name in names if (number := getattr(errno, name, None)) is not None)


_UNREACHABLE: Final = _errnos("ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN")
_PEER_DROP: Final = _errnos("ECONNRESET", "ECONNABORTED", "EPIPE", "ESHUTDOWN", "ENOTCONN", "ENETRESET")
_TIMEOUT: Final = _errnos("ETIMEDOUT")
_LOCAL_RESOURCE: Final = _errnos("EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EADDRINUSE", "EADDRNOTAVAIL")


def _httpx(*names: str) -> tuple[str, ...]:
    """Return the classes' names in httpx, in httpcore beneath it, and in the next generation of both."""
    return tuple(f"{module}.{name}" for name in names for module in ("httpx", "httpcore", "httpx2", "httpcore2"))


# httpcore's pool raises its errors `from None`, and so hides the operating system's error in their context.
_BEHIND_HTTPCORE: Final = ("__cause__", "__context__")

_OPENAI_MESSAGE: Final = ("body.message", "body.error.message")

DEFAULT_RULES: Final[tuple[Rule, ...]] = (
    # The end of the work itself.
    Rule(
        types=("asyncio.CancelledError", "concurrent.futures.CancelledError"),
        kind=kinds.CANCELLED,
        text=foreign.why_cancelled,
    ),
    Rule(types=("starlette.requests.ClientDisconnect", "uvicorn.ClientDisconnected"), kind=kinds.CANCELLED),
    Rule(types=("KeyboardInterrupt", "SystemExit"), kind=kinds.SHUTDOWN),
    Rule(
        types=("subprocess.CalledProcessError",),
        kind=kinds.KILL_SHAPED,
        message=foreign.exit_status,
        when=foreign.was_killed,
    ),
    Rule(types=("subprocess.CalledProcessError",), message=foreign.exit_status),
    Rule(types=("concurrent.futures.process.BrokenProcessPool",), kind=kinds.KILL_SHAPED),
    # NeMo Gym's own.
    Rule(types=("nemo_gym.judge.JudgeError",), kind=kinds.JUDGE_FAILED),
    # Time.
    Rule(types=("TimeoutError",), kind=kinds.TRANSPORT_TIMEOUT, errnos=_TIMEOUT),
    Rule(
        types=("TimeoutError",),
        kind=kinds.AGENT_TIMEOUT,
        boundaries=(FailureBoundary.AGENT, FailureBoundary.HARNESS),
    ),
    Rule(types=("TimeoutError",), kind=kinds.TRANSPORT_TIMEOUT),
    Rule(
        types=("subprocess.TimeoutExpired",),
        kind=kinds.AGENT_TIMEOUT,
        message=foreign.time_given,
        boundaries=(FailureBoundary.AGENT, FailureBoundary.HARNESS),
    ),
    Rule(types=("subprocess.TimeoutExpired",), message=foreign.time_given),
    # The operating system and the standard library.
    Rule(types=("MemoryError",), kind=kinds.TRANSPORT_LOCAL_RESOURCE),
    Rule(types=("OSError",), kind=kinds.TRANSPORT_LOCAL_RESOURCE, errnos=_LOCAL_RESOURCE),
    Rule(types=("OSError",), kind=kinds.TRANSPORT_UNREACHABLE, errnos=_UNREACHABLE),
    Rule(types=("OSError",), kind=kinds.TRANSPORT_PEER_DROP, errnos=_PEER_DROP),
    Rule(
        types=("socket.gaierror", "socket.herror", "ConnectionRefusedError"),
        kind=kinds.TRANSPORT_UNREACHABLE,
    ),
    Rule(types=("ConnectionError",), kind=kinds.TRANSPORT_PEER_DROP),
    Rule(types=("ssl.SSLEOFError", "ssl.SSLZeroReturnError"), kind=kinds.TRANSPORT_PEER_DROP),
    Rule(types=("ssl.SSLError",), kind=kinds.TRANSPORT_UNREACHABLE),
    Rule(types=("asyncio.IncompleteReadError", "http.client.IncompleteRead"), kind=kinds.TRANSPORT_PEER_DROP),
    Rule(types=("http.client.HTTPException",), kind=kinds.PROTOCOL_VIOLATION, message=()),
    Rule(types=("urllib.error.HTTPError",), status=("code",), message=("reason",)),
    Rule(types=("urllib.error.URLError",), kind=kinds.TRANSPORT_UNREACHABLE, inside=("reason",), message=()),
    # Answers that do not parse or validate.
    Rule(types=("json.JSONDecodeError",), kind=kinds.PROTOCOL_VIOLATION, message=("msg",)),
    Rule(
        types=("pydantic_core.ValidationError", "fastapi.exceptions.ValidationException"),
        kind=kinds.PROTOCOL_VIOLATION,
        message=foreign.validation_faults,
    ),
    Rule(types=("msgspec.DecodeError",), kind=kinds.PROTOCOL_VIOLATION),
    Rule(types=("jsonschema.ValidationError",), kind=kinds.PROTOCOL_VIOLATION, message=foreign.schema_fault),
    Rule(types=("starlette.exceptions.HTTPException",), status=("status_code",)),
    # aiohttp.
    Rule(types=("aiohttp.ServerTimeoutError",), kind=kinds.TRANSPORT_TIMEOUT, message=()),
    Rule(
        types=("aiohttp.ClientConnectorError", "aiohttp.ServerFingerprintMismatch"),
        kind=kinds.TRANSPORT_UNREACHABLE,
        message=(),
        inside=("os_error", "__cause__"),
    ),
    Rule(
        types=("aiohttp.ClientPayloadError",),
        kind=kinds.PROTOCOL_VIOLATION,
        message=(),
        when=foreign.is_undecodable,
    ),
    Rule(
        types=("aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError"),
        kind=kinds.TRANSPORT_PEER_DROP,
        message=("message",),
        inside=("__cause__",),
    ),
    Rule(
        types=("aiohttp.ClientHttpProxyError",),
        kind=kinds.TRANSPORT_UNREACHABLE,
        status=("status",),
        message=("message",),
    ),
    Rule(
        types=("aiohttp.ClientResponseError",),
        kind=kinds.PROTOCOL_VIOLATION,
        message=(),
        when=foreign.is_unreadable,
    ),
    Rule(
        types=("aiohttp.ContentTypeError", "aiohttp.TooManyRedirects", "aiohttp.WSServerHandshakeError"),
        kind=kinds.PROTOCOL_VIOLATION,
        status=("status",),
        message=("message",),
        when=foreign.is_no_http_error,
    ),
    Rule(types=("aiohttp.ClientResponseError",), status=("status",), message=("message",)),
    Rule(types=("aiohttp.ClientError",), message=()),
    # httpx.
    Rule(types=_httpx("TimeoutException"), kind=kinds.TRANSPORT_TIMEOUT, message=()),
    Rule(
        types=_httpx("ConnectError", "ProxyError"),
        kind=kinds.TRANSPORT_UNREACHABLE,
        message=(),
        inside=_BEHIND_HTTPCORE,
    ),
    Rule(
        types=_httpx("NetworkError", "RemoteProtocolError"),
        kind=kinds.TRANSPORT_PEER_DROP,
        message=(),
        inside=_BEHIND_HTTPCORE,
    ),
    Rule(types=_httpx("DecodingError", "TooManyRedirects"), kind=kinds.PROTOCOL_VIOLATION, message=()),
    Rule(types=_httpx("HTTPStatusError"), status=("response.status_code",), message=("response.reason_phrase",)),
    Rule(types=_httpx("HTTPError", "ProtocolError", "UnsupportedProtocol", "InvalidURL", "StreamError"), message=()),
    # requests, and urllib3 beneath it.
    Rule(types=("requests.Timeout", "urllib3.TimeoutError"), kind=kinds.TRANSPORT_TIMEOUT, message=()),
    Rule(
        types=("requests.ConnectionError", "urllib3.MaxRetryError", "urllib3.SSLError", "urllib3.ProxyError"),
        kind=kinds.TRANSPORT_UNREACHABLE,
        message=(),
        inside=("reason", "args.0.reason", "args.0.args.1", "args.0"),
    ),
    Rule(types=("urllib3.NewConnectionError",), kind=kinds.TRANSPORT_UNREACHABLE, message=(), inside=("__cause__",)),
    Rule(
        types=("requests.ChunkedEncodingError", "urllib3.ProtocolError", "urllib3.IncompleteRead"),
        kind=kinds.TRANSPORT_PEER_DROP,
        message=(),
        inside=("args.1",),
    ),
    Rule(
        types=(
            "requests.ContentDecodingError",
            "requests.InvalidJSONError",
            "requests.TooManyRedirects",
            "urllib3.DecodeError",
        ),
        kind=kinds.PROTOCOL_VIOLATION,
        message=("msg",),
    ),
    Rule(types=("requests.HTTPError",), status=("response.status_code",), message=("response.reason",)),
    Rule(types=("requests.RequestException", "urllib3.HTTPError"), message=()),
    # openai, and SDKs that are made like it.
    Rule(
        types=("openai.APITimeoutError",),
        kind=kinds.TRANSPORT_TIMEOUT,
        message=("message",),
    ),
    Rule(
        types=("openai.APIConnectionError",),
        kind=kinds.TRANSPORT_UNREACHABLE,
        message=(),
        inside=("__cause__",),
    ),
    Rule(
        types=("openai.APIResponseValidationError",),
        kind=kinds.PROTOCOL_VIOLATION,
        status=("status_code",),
        message=(),
    ),
    Rule(
        types=("openai.APIError",),
        status=("status_code",),
        code=("code", "body.code", "body.error.code", "type", "body.type"),
        message=_OPENAI_MESSAGE,
        provider=True,
    ),
    Rule(types=("openai.OpenAIError",), message=()),
)
"""What the package knows without being told."""

SDK_SHAPE: Final = Rule(
    types=(),
    status=("status_code", "response.status_code", "response.status"),
    code=("code", "body.code", "body.error.code"),
    message=(*_OPENAI_MESSAGE, "message"),
    provider=True,
)
"""For an error that no row names but that has an HTTP status and the body, request or response that it came with."""
