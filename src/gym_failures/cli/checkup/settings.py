"""What the variables of this package and of OpenTelemetry switch off, cut or leave out."""

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Final

from gym_failures import gym_configuration
from gym_failures.accepted import DEFAULT, EVERYONE, NOBODY
from gym_failures.cli.checkup.finding import Finding, ok, problem, warning
from gym_failures.cli.checkup.span_limits import span_limits
from gym_failures.config import ENVIRONMENT_PREFIX, VARIABLES, Config, ConfigError
from gym_failures.enabling.patterns import VARIABLES as PATTERNS
from gym_failures.enabling.patterns import unusable
from gym_failures.enabling.process import Process
from gym_failures.kinds import FailureBoundary

_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_SAMPLER_ARG: Final = "OTEL_TRACES_SAMPLER_ARG"
_PROPAGATORS: Final = "OTEL_PROPAGATORS"
_NOT_INSTRUMENTED: Final = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
_WANTED: Final = ("aiohttp-client", "fastapi", "gym_failures")
"""Names of instrumentations that a trace through Gym's servers is made of."""


def settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the variables say that matters to failures."""
    said = {name: value.strip() for name, value in environ.items() if value.strip()}
    yield from _own(said)
    yield from _switches(said)
    yield from span_limits(said)
    yield from _sampler(said)
    yield from _propagators(said)
    yield from _providers(said)
    yield from _patterns(said)


def _own(said: Mapping[str, str]) -> Iterator[Finding]:
    known = frozenset(VARIABLES)
    for name in sorted(said):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            yield warning(name, "is no setting, and is passed over", f"use one of {', '.join(sorted(known))}")
    try:
        config = Config.from_env({name: value for name, value in said.items() if name in known})
    except ConfigError as error:
        name = str(error).partition("=")[0]
        yield problem(name, f"cannot be used: {error}", "set it to what it can be, or unset it")
        return
    name = f"{ENVIRONMENT_PREFIX}ENABLED"
    if not config.enabled:
        yield problem(name, "switches everything of this package off", f"unset {name}")
        return
    yield ok(name, "failures are recorded and carried")
    yield _boundary(said, config)
    yield _believed(said)


def _boundary(said: Mapping[str, str], config: Config) -> Finding:
    name = f"{ENVIRONMENT_PREFIX}BOUNDARY"
    if config.boundary is not None:
        return ok(name, f"is {FailureBoundary(config.boundary).value}: all servers that are started here are that")
    if Process.of(said).boundary is not None or find_spec("nemo_gym") is not None:
        return ok(name, "is not set: NeMo Gym's servers know theirs; set it for a server of another kind")
    return warning(
        name,
        "is not set: servers that are not NeMo Gym's do not say why a request failed",
        f"set it to what the server is, one of {', '.join(boundary.value for boundary in FailureBoundary)}",
    )


def _believed(said: Mapping[str, str]) -> Finding:
    name = f"{ENVIRONMENT_PREFIX}ACCEPT_FROM"
    entries = [entry.strip() for entry in said.get(name, DEFAULT).split(",")]
    if entries == [NOBODY]:
        return warning(name, "is none: no report in a reply is believed", f"unset {name}")
    if entries == [EVERYONE]:
        return ok(name, "is all: reports in replies are believed, whoever sends them")
    if DEFAULT not in entries:
        says = "lacks default: no reports of this machine, of private addresses and of NeMo Gym's servers are believed"
        return warning(name, says, f"put {DEFAULT} first in it")
    named = [entry for entry in entries if entry and entry != DEFAULT]
    named += sorted(gym_configuration.hosts_in(said.get(gym_configuration.VARIABLE, "")))
    by_name = f"by name of {', '.join(named)}" if named else "by name of those in NeMo Gym's configuration alone"
    return ok(name, f"reports of servers on this machine and at private addresses are believed, and {by_name}")


def _switches(said: Mapping[str, str]) -> Iterator[Finding]:
    if said.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield problem("OTEL_SDK_DISABLED", "switches off all spans and counts", "unset OTEL_SDK_DISABLED")
    off = {name.strip() for name in said.get(_NOT_INSTRUMENTED, "").split(",")}
    for name in _WANTED:
        if name in off:
            yield problem(_NOT_INSTRUMENTED, f"leaves {name} out, so traces have gaps", f"take {name} out of it")


def _sampler(said: Mapping[str, str]) -> Iterator[Finding]:
    name = said.get(_SAMPLER, "")
    if name.endswith("always_off"):
        yield problem(_SAMPLER, f"is {name}: no span is stored", f"unset {_SAMPLER}")
    elif name.endswith("traceidratio"):
        try:
            ratio = float(said.get(_SAMPLER_ARG, "1"))
        except ValueError:
            yield problem(
                _SAMPLER_ARG, f"is {said[_SAMPLER_ARG]}, which is no number", "set it to a share of 1, as 0.1"
            )
            return
        if ratio < 1:
            yield warning(
                _SAMPLER_ARG,
                f"is {ratio:g}: of most failing rollouts no span is stored; replies and counts still tell of them",
                f"unset {_SAMPLER}, and choose in a Collector, which keeps what fails (collector-config/)",
            )


def _propagators(said: Mapping[str, str]) -> Iterator[Finding]:
    names = [name.strip() for name in said.get(_PROPAGATORS, "tracecontext,baggage").split(",")]
    if "tracecontext" not in names:
        yield problem(
            _PROPAGATORS,
            f"is {said[_PROPAGATORS]}: each server begins a trace of its own",
            "put tracecontext first in it",
        )
    for name in names:
        if name != "none" and not entry_points(group="opentelemetry_propagator", name=name):
            yield problem(
                _PROPAGATORS, f"names {name}, which is not installed; OpenTelemetry refuses to start", "take it out"
            )


def _providers(said: Mapping[str, str]) -> Iterator[Finding]:
    for provider, what in (("tracer", "spans"), ("meter", "counts")):
        variable = f"OTEL_PYTHON_{provider.upper()}_PROVIDER"
        name = said.get(variable)
        if name and not entry_points(group=f"opentelemetry_{provider}_provider", name=name):
            yield problem(variable, f"names {name}, which is not installed: {what} may go nowhere", "take it out")


def _patterns(said: Mapping[str, str]) -> Iterator[Finding]:
    for variable in dict.fromkeys(unusable(instrumentation, said) for instrumentation in PATTERNS):
        if variable is not None:
            yield problem(variable, "holds a pattern that cannot be read: requests have no spans", "mend the pattern")
