"""Say what failed in NeMo Gym: once, in one vocabulary, with its causes.

The public names are here, and each brings in its own module at its first use. So importing this package, like importing
`gym_failures.kinds`, needs the standard library only.
"""

from typing import TYPE_CHECKING

from gym_failures._version import __version__

if TYPE_CHECKING:
    from gym_failures.config import Config, ConfigError
    from gym_failures.enabling import enable
    from gym_failures.errors import FailureError, GymFailuresError, error_from, report_for
    from gym_failures.kinds import (
        FAILURE_KINDS,
        FailureStage,
        is_namespaced,
        is_registered,
        validate_failure_kind,
    )
    from gym_failures.log import FailureLog
    from gym_failures.recording import observe, record_failure
    from gym_failures.records import (
        EpisodeFailure,
        FailureBoundary,
        FailureDetails,
        FailureEvent,
        FailureReport,
        ModelFailureDetails,
        SandboxFailureDetails,
        SdkErrorDetails,
        validate_failure_event_map,
    )
else:  # Out of a type checker's sight: a module-level __getattr__ would make every misspelt name look right to it.
    from importlib import import_module

    _NAMES = {
        "config": ("Config", "ConfigError"),
        "enabling": ("enable",),
        "errors": ("FailureError", "GymFailuresError", "error_from", "report_for"),
        "kinds": (
            "FAILURE_KINDS",
            "FailureStage",
            "is_namespaced",
            "is_registered",
            "validate_failure_kind",
        ),
        "log": ("FailureLog",),
        "recording": ("observe", "record_failure"),
        "records": (
            "EpisodeFailure",
            "FailureBoundary",
            "FailureDetails",
            "FailureEvent",
            "FailureReport",
            "ModelFailureDetails",
            "SandboxFailureDetails",
            "SdkErrorDetails",
            "validate_failure_event_map",
        ),
    }
    _HOME = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> object:
        """Import `name` from its module and keep it here; an AttributeError says that there is no such name."""
        if name not in _HOME:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return value

    def __dir__() -> list[str]:
        """List the public names, those not yet imported too."""
        return sorted({*globals(), *_HOME})


__all__ = [
    "FAILURE_KINDS",
    "Config",
    "ConfigError",
    "EpisodeFailure",
    "FailureBoundary",
    "FailureDetails",
    "FailureError",
    "FailureEvent",
    "FailureLog",
    "FailureReport",
    "FailureStage",
    "GymFailuresError",
    "ModelFailureDetails",
    "SandboxFailureDetails",
    "SdkErrorDetails",
    "__version__",
    "enable",
    "error_from",
    "is_namespaced",
    "is_registered",
    "observe",
    "record_failure",
    "report_for",
    "validate_failure_event_map",
    "validate_failure_kind",
]
