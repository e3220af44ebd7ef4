"""Everything that is installed, instrumented at once and without a line of the program changed."""

import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, Final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from gym_failures.config import Config
from gym_failures.guard import Guard, warn_once
from gym_failures.kinds import FailureBoundary
from gym_failures.misuse import MissingExtraError
from gym_failures.recorder import FailureRecorder, set_default_recorder

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # is untyped
    from wrapt import register_post_import_hook
except ModuleNotFoundError as error:
    raise MissingExtraError("GymFailuresInstrumentor", error.name or "", "instrument") from error

_INSTRUMENT: Final = Guard("instrument")


class GymFailuresInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # is untyped
    """Instrument the servers and clients of this process: Starlette and FastAPI apps, aiohttp, httpx and httpx2.

    ``GymFailuresInstrumentor().instrument(boundary="model")`` does it in a program, and `opentelemetry-instrument`
    without one, by the entry point ``gym_failures`` and the variable GYM_FAILURES_BOUNDARY. A library that is not
    imported yet is instrumented when it is; nothing is imported for our sake. It makes no difference whether an app or
    a client exists yet (but an aiohttp session that does is left alone, see `instrument_session`), nor whether
    OpenTelemetry's own instrumentations come before or after. It may be undone and done again any number of times.

    `instrument` takes, all by name: `boundary`, where this process observes failures; `config`, a `config.Config`;
    `tracer_provider` and `meter_provider`. None of `config` reads GYM_FAILURES_*, None of a provider takes the global
    one. Without any boundary servers are left alone, with a warning, because nobody can tell which one they are;
    clients then observe at "collection". Raises `config.ConfigError`, which names the variable or field and its value,
    before anything is changed.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Ask for nothing: what is not installed is not instrumented."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:  # noqa: ANN401 - as the base class has it
        recorder = _recorder(**kwargs)
        _state.undo.append(partial(set_default_recorder, set_default_recorder(recorder)))
        if not recorder.config.enabled:
            return
        _state.recorder = recorder
        for module in _INSTRUMENTED:
            if module in sys.modules:
                _on_import(module)
            elif module not in _state.awaited:
                _state.awaited.add(module)
                register_post_import_hook(lambda loaded: _on_import(loaded.__name__), module)

    def _uninstrument(self, **_: Any) -> None:  # noqa: ANN401 - as the base class has it
        _state.recorder = None
        while _state.undo:
            _state.undo.pop()()


class _State:
    """What the one instrumentor of this process has done."""

    def __init__(self) -> None:
        self.recorder: FailureRecorder | None = None
        self.awaited: set[str] = set()
        self.undo: list[Callable[[], object]] = []


_state: Final = _State()


def _recorder(
    *,
    boundary: FailureBoundary | str | None = None,
    config: Config | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> FailureRecorder:
    given: dict[str, Any] = {} if boundary is None else {"boundary": boundary}
    chosen = Config.from_env(**given) if config is None else replace(config, **given)
    return FailureRecorder(chosen, tracer_provider=tracer_provider, meter_provider=meter_provider)


def _on_import(module: str) -> None:
    """Instrument a module that has been imported, unless that is no longer wanted."""
    with _INSTRUMENT:
        if _state.recorder is not None:
            _INSTRUMENTED[module](_state.recorder)


def _instrument_servers(recorder: FailureRecorder) -> None:
    from gym_failures.instrumentation.asgi import instrument_all_apps, uninstrument_all_apps  # noqa: PLC0415

    if recorder.config.boundary is None:
        warn_once("boundary", "GYM_FAILURES_BOUNDARY is not set: what servers of this process observe stays unknown")
        return
    instrument_all_apps(boundary=recorder.config.boundary, recorder=recorder)
    _state.undo.append(uninstrument_all_apps)


def _instrument_aiohttp(recorder: FailureRecorder) -> None:
    from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp  # noqa: PLC0415

    instrument_aiohttp(boundary=_of_clients(recorder), recorder=recorder)
    _state.undo.append(uninstrument_aiohttp)


def _instrument_httpx(recorder: FailureRecorder, name: str) -> None:
    from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx  # noqa: PLC0415

    instrument_httpx(boundary=_of_clients(recorder), recorder=recorder, module=sys.modules[name])
    _state.undo.append(uninstrument_httpx)


def _of_clients(recorder: FailureRecorder) -> FailureBoundary | str:
    return recorder.config.boundary or FailureBoundary.COLLECTION


# Each adapter is imported with its library: neither before, nor where that is not installed.
_INSTRUMENTED: Final[dict[str, Callable[[FailureRecorder], None]]] = {
    "starlette.applications": _instrument_servers,
    "aiohttp": _instrument_aiohttp,
    "httpx": lambda recorder: _instrument_httpx(recorder, "httpx"),
    "httpx2": lambda recorder: _instrument_httpx(recorder, "httpx2"),
}
