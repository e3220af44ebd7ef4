"""The providers of OpenTelemetry that this process has. One that a variable names and nobody can make is as none.

OpenTelemetry's API raises and logs a traceback each time it is asked then, `StopIteration` for a name that it does not
know. Here it is asked until it has failed once, and that is said once.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import metrics

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

logger = logging.getLogger(__name__)

_TRACERS: Final = "OTEL_PYTHON_TRACER_PROVIDER"
_METERS: Final = "OTEL_PYTHON_METER_PROVIDER"

_stand_ins: Final[dict[str, Any]] = {}
"""What stands for the provider that a variable names, by the variable."""


def tracer_provider() -> "TracerProvider":
    """Return the global TracerProvider; the API's own, which waits for a program to set one, if none can be made."""
    from opentelemetry import trace  # noqa: PLC0415 - the command has no spans

    provider: TracerProvider = _asked(_TRACERS, trace.get_tracer_provider, trace.ProxyTracerProvider)
    return provider


def meter_provider() -> metrics.MeterProvider:
    """Return the global MeterProvider; the API's own, which counts nothing, if none can be made."""
    provider: metrics.MeterProvider = _asked(_METERS, metrics.get_meter_provider, metrics.NoOpMeterProvider)
    return provider


def has_no_meters() -> bool:
    """Tell whether the global MeterProvider is one that cannot be made."""
    return meter_provider() is _stand_ins.get(_METERS)


def _asked(variable: str, ask: Callable[[], Any], stand_in: Callable[[], Any]) -> Any:  # noqa: ANN401 - of either kind
    if variable in _stand_ins:
        return _stand_ins[variable]
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program must run on
        logger.warning(
            "%s names no provider that can be made (%s): it stands for none", variable, type(error).__qualname__
        )
        return _stand_ins.setdefault(variable, stand_in())
