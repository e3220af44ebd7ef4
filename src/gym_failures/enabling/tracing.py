"""What is done to a process so that it is traced, each part when it is needed first and not before."""

import os
import sys
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from gym_failures import provided
from gym_failures.config import Config
from gym_failures.enabling import patterns
from gym_failures.enabling.once import Once
from gym_failures.enabling.process import Process
from gym_failures.guard import Guard, warn_once
from gym_failures.kinds import FailureBoundary

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from starlette.applications import Starlette

    from gym_failures.enabling.flushing import Flush
    from gym_failures.enabling.reticence import Reticence

_GUARD: Final = Guard("enable")


class Tracing:
    """Instruments and sets up this process. Nothing of it raises."""

    def __init__(self, config: Config, process: Process) -> None:
        """Take what the user has chosen, and which process this is."""
        self._config: Final = config
        self._process: Final = process
        self._flush: Flush | None = None
        self.requests: Final[set[object]] = set()
        """One of whatever kind for each request that an app serves now."""
        self.instrument: Final = Once(self._instrument, _GUARD)
        """Instruments what apps and clients of this process observe."""
        self.instrument_sessions: Final = Once(self._instrument_sessions, _GUARD)
        """Does that, and has OpenTelemetry trace the calls of aiohttp."""
        self.set_up: Final = Once(self._set_up, _GUARD)
        """Sets OpenTelemetry's SDK up, unless the program has: so it is asked for just before the first span."""

    @cached_property
    def _reticence(self) -> "Reticence":
        """What keeps the text of exceptions off spans."""
        from gym_failures.enabling.reticence import Reticence  # noqa: PLC0415 - with the records, once there are spans

        return Reticence(self._config)

    def _provider(self) -> "TracerProvider":
        """Return what instrumentations of OpenTelemetry are to get their spans of."""
        from gym_failures.enabling.reticence import ReticentProvider  # noqa: PLC0415 - as above

        return ReticentProvider(self._reticence)

    def instrument_app(self, app: "Starlette") -> None:
        """Have OpenTelemetry trace a FastAPI app that has not begun; one that is traced, or of another kind, stays."""
        with _GUARD:
            fastapi = sys.modules.get("fastapi")
            if fastapi is None or not isinstance(app, fastapi.FastAPI):
                return
            if getattr(app, "_is_instrumented_by_opentelemetry", False) or _is_left_out("fastapi"):
                return
            from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor  # noqa: PLC0415 - where it is needed

            # A span for each message of a request says nothing of failures, and costs as much as the request's.
            FastAPIInstrumentor.instrument_app(
                app,
                exclude_spans=["receive", "send"],
                tracer_provider=self._provider(),
                meter_provider=provided.meter_provider(),
            )

    def before_a_span(self) -> None:
        """See to it that a span which is opened now is a real one, and what is observed in it written as chosen."""
        self.instrument()
        self.set_up()

    async def end(self) -> None:
        """Send what is left, if it is for us to send, at the end of an app."""
        if self._flush is not None:
            from gym_failures.enabling.ending import end  # noqa: PLC0415 - a client has no use for it

            await end(self._flush, lambda: bool(self.requests))

    def _instrument(self) -> None:
        if find_spec("opentelemetry.instrumentation") is None:
            warn_once(
                "instrumentation", "opentelemetry-instrumentation is not installed: nothing of this process is seen"
            )
            return
        from gym_failures.instrumentation import GymFailuresInstrumentor  # noqa: PLC0415 - imports all of OpenTelemetry

        instrumentor = GymFailuresInstrumentor()
        if not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument(boundary=self._boundary(), config=self._config)

    def _boundary(self) -> FailureBoundary | str | None:
        if self._config.boundary is not None or self._process.boundary is not None:
            return self._config.boundary or self._process.boundary
        # A process of NeMo Gym that is no server makes the rollouts, or starts those who do.
        return FailureBoundary.COLLECTION if "nemo_gym" in sys.modules else None

    def _instrument_sessions(self) -> None:
        self.instrument()
        if _is_left_out("aiohttp_client"):
            return
        from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor  # noqa: PLC0415 - as above

        instrumentor = AioHttpClientInstrumentor()
        if not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument(tracer_provider=self._provider(), meter_provider=provided.meter_provider())

    def _set_up(self) -> None:
        if find_spec("opentelemetry.sdk") is None:
            warn_once("sdk", "opentelemetry-sdk is not installed: failures go to reply headers and log lines alone")
            return
        from gym_failures.enabling import providers  # noqa: PLC0415 - a program with providers of its own needs none

        if not providers.somebody_has():
            self._flush = providers.set_up(self._process, self._config.traces, self._reticence)


def _is_left_out(instrumentation: str) -> bool:
    """Tell whether an instrumentation of OpenTelemetry is unwanted, not installed, or would fail."""
    if find_spec("opentelemetry.instrumentation") is None:
        return True
    unwanted = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").replace(" ", "").split(",")
    if instrumentation.replace("_", "-") in unwanted:
        return True
    missing = find_spec(f"opentelemetry.instrumentation.{instrumentation}") is None
    if missing:
        warn_once(
            f"instrumentation:{instrumentation}",
            "opentelemetry-instrumentation-%s is not installed: failures have no spans of it to be on",
            instrumentation.replace("_", "-"),
        )
        return True
    wrong = patterns.unusable(instrumentation, os.environ)
    if wrong is not None:
        warn_once(
            f"instrumentation:{instrumentation}",
            "%s is no list of regular expressions: opentelemetry-instrumentation-%s is left out, and its spans with it",
            wrong,
            instrumentation.replace("_", "-"),
        )
    return wrong is not None
