"""Whether NeMo Gym's own telemetry is what its user thinks it is."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from gym_failures.cli.checkup.finding import Finding, ok, warning
from gym_failures.cli.checkup.packages import is_there

_SWITCHES: Final = ("NEMO_GYM_OTEL_ENABLED", "NEMO_LENS_ENABLED")
"""Variables that switch it on, the first that says anything (nemo-gym 0.7.0, `nemo_gym/telemetry/setup.py`)."""
_ON: Final = frozenset({"1", "true", "yes", "on"})
_NEEDED: Final = {
    "nemo.lens": ("NemoLensConfig", "TelemetryHandle", "get_meter", "get_tracer", "handle", "setup_telemetry"),
    "nemo.lens.groups": ("SpanRegistry",),
    "nemo.lens.semconv": ("NV_DL_RANK", "NV_DL_WORLD_SIZE"),
}
"""What it imports of nemo-lens, and is silently off without. nemo-lens 0.1.0 lacks three of these (same source)."""


def nemo_gym(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether telemetry that is switched on in NeMo Gym is on."""
    said = next((name for name in _SWITCHES if environ.get(name, "").strip()), None)
    if said is None or environ[said].strip().lower() not in _ON or not is_there("nemo_gym"):
        return
    missing = [f"{module}.{name}" for module, names in _NEEDED.items() for name in names if not _has(module, name)]
    if missing:
        without = ", ".join(missing) if is_there("nemo.lens") else "nemo-lens"
        says = f"NeMo Gym's own telemetry is off all the same, without a word: there is no {without}"
        yield warning(said, says, "put `gym-failures run --` before the command: that traces without it")
    else:
        yield ok(said, "NeMo Gym's own telemetry is on; its TracerProvider and its names are used")


def _has(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or is_there(f"{module}.{name}")
    except Exception:  # noqa: BLE001 - whatever keeps it from being imported
        return False
