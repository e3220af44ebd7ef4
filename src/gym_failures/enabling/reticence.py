"""Spans that keep an exception's text to themselves, and never fail over it.

OpenTelemetry puts the traceback and the text of an exception on a span as they are, secrets and quoted code included.
It makes that text without asking whether there is one: where `str()` raises, the program gets that error in place of
its own (ray#44878). Both are for whoever switches OpenTelemetry on to answer for.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, ClassVar, Final

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, Status, StatusCode
from opentelemetry.util._decorator import _agnosticcontextmanager
from opentelemetry.util.types import Attributes

from gym_failures import limits, provided
from gym_failures.classify import classify
from gym_failures.config import Config
from gym_failures.guard import Guard
from gym_failures.kinds import FailureBoundary
from gym_failures.looking import look
from gym_failures.privacy import hidden, reason_policy
from gym_failures.text import cut, type_name

_GUARD: Final = Guard("reticence")
_OPENTELEMETRY: Final = "opentelemetry."
"""How the names of OpenTelemetry's modules begin, those of its instrumentations included."""


class Reticence:
    """Tells of exceptions what a failure's reason would tell of them: it is chosen, scrubbed and bounded."""

    def __init__(self, config: Config) -> None:
        """Take what the user wants hidden, and how long a reason may be."""
        self._config: Final = config
        self._policy: Final = reason_policy(config.span_reasons)
        self._kinds: Final[dict[type, type | None]] = {}

    def apply(self, span: Span) -> Span:
        """Return `span`, made reticent where its class lets that be changed."""
        kind = type(span)
        try:
            if kind not in self._kinds:
                self._kinds[kind] = self._kind_of(kind)
            if reticent := self._kinds[kind]:
                span.__class__ = reticent
        except Exception:  # noqa: BLE001 - somebody's own class that lets itself not be changed
            self._kinds[kind] = None
        return span

    def _kind_of(self, kind: type) -> type | None:
        """Return the class of a reticent span of a kind; None for one that needs none."""
        if issubclass(kind, _Reticent | NonRecordingSpan):
            return None
        return type(kind.__name__, (_Reticent, kind), {"__module__": kind.__module__, "_gym_failures_reticence": self})

    def message(self, error: BaseException) -> str:
        """Return what may be said of an exception; nothing where that is nothing."""
        # Of where it was observed only the kind depends, which is not asked for here.
        found = classify(error, boundary=FailureBoundary.COLLECTION, rules=self._config.rules)
        return self.text(found.reason)

    def text(self, text: str) -> str:
        """Return what may be said of a text."""
        return self._policy(hidden(self._config, text))


class ReticentProvider(trace.TracerProvider):
    """Gives reticent spans of the provider that this process has, to instrumentations that were not asked for."""

    def __init__(self, reticence: Reticence) -> None:
        """Take what makes spans reticent."""
        self._reticence: Final = reticence

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:  # noqa: ANN401 - as the version of the API has it
        """Return a tracer of the global provider, also of one that is set later; one without spans if that fails."""
        with _GUARD:
            return _ReticentTracer(provided.tracer_provider().get_tracer(*args, **kwargs), self._reticence)
        return trace.NoOpTracer()


class _ReticentTracer(trace.Tracer):
    def __init__(self, tracer: trace.Tracer, reticence: Reticence) -> None:
        self._tracer: Final = tracer
        self._reticence: Final = reticence

    def start_span(self, *args: Any, **kwargs: Any) -> Span:  # noqa: ANN401 - as above
        return self._reticence.apply(self._tracer.start_span(*args, **kwargs))

    @_agnosticcontextmanager  # as a decorator of a coroutine it lasts as long as that
    def start_as_current_span(
        self,
        *args: Any,  # noqa: ANN401 - as above
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(*args, **kwargs) as span:
            yield self._reticence.apply(span)


class _Reticent(Span):
    """What a span does otherwise; the class of a span that has begun is made of this one and its own."""

    _gym_failures_reticence: ClassVar[Reticence]

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
    ) -> None:
        with _GUARD:
            message = self._gym_failures_reticence.message(exception)
            said = {"exception.type": type_name(exception)} | ({"exception.message": message} if message else {})
            self.add_event("exception", said | {"exception.escaped": str(escaped)} | dict(attributes or {}), timestamp)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        code: object = status
        given: object = description
        if isinstance(status, Status):
            code, given = status.status_code, status.description
        if isinstance(code, StatusCode) and isinstance(given, str):  # else the span's own class says what is wrong
            status, description = Status(code, self._description(given)), None
        super().set_status(status, description)  # type: ignore[safe-super]  # the other class's

    def _description(self, given: str) -> str | None:
        with _GUARD:
            error = sys.exception()
            if error is not None:
                if given.startswith(f"{type(error).__name__}: "):
                    return None  # The text of the exception, of which the event says what may be said.
                if text := look(str, error):
                    whole = cut(given, limits.DESCRIPTION_LENGTH + len(text))
                    given = whole.replace(text, self._gym_failures_reticence.message(error))
            return self._gym_failures_reticence.text(cut(given, limits.DESCRIPTION_LENGTH)) or None
        return None

    def is_recording(self) -> bool:
        # Code of OpenTelemetry that would fail over an exception is told that nothing records, and its work done here.
        if not super().is_recording():  # type: ignore[safe-super]  # the other class's
            return False
        error = sys.exception()
        if error is None:
            return True
        caller = sys._getframe(1)  # noqa: SLF001 - there is no other way to know who asks
        if not _will_make_text(caller, error):
            return True
        if self._is_told_to(caller, "record_exception"):
            self.record_exception(error)
        if self._is_told_to(caller, "set_status_on_exception"):
            self.set_status(StatusCode.ERROR)
        return False

    def _is_told_to(self, caller: FrameType, name: str) -> bool:
        # Functions of OpenTelemetry that can be told so have an argument of that name; a span's end was told before.
        return bool(caller.f_locals.get(name, getattr(self, f"_{name}", True)))


def _will_make_text(caller: FrameType, error: BaseException) -> bool:
    """Tell whether code of OpenTelemetry has in its hands an exception that is handled, and that has no text.

    Then it asks whether the span records so as to write that text, and not to put anything else on it.
    """
    if not str(caller.f_globals.get("__name__", "")).startswith(_OPENTELEMETRY):
        return False
    return any(value is error for value in caller.f_locals.values()) and look(format, error) is None
