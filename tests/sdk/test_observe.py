"""`observe` records what leaves it, once, and changes nothing."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Never, Self

import pytest
from opentelemetry.trace import StatusCode

from gym_failures import guard, limits, semconv
from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import FailureLog
from gym_failures.recording import observe, record_failure
from gym_failures.testing import Telemetry


def test_one_exception_through_three_spans_is_one_event(telemetry: Telemetry) -> None:
    """An exception that leaves three nested spans is one event and one count; the outer ones get the summary.

    Seen elsewhere as three exception events for one error (opentelemetry-python-contrib#5068, logfire#915).
    """
    error = RuntimeError("boom")
    with pytest.raises(RuntimeError) as caught:  # noqa: PT012, SIM117 - the nesting is what is tested
        with telemetry.span("outer"), observe("agent"):
            with telemetry.span("middle"), observe("agent"):
                with telemetry.span("inner"), observe("agent"):
                    raise error
    assert caught.value is error
    assert telemetry.only_event()["failure.kind"] == "agent_run_error"
    assert telemetry.count() == 1
    ids = {(telemetry.named(name).attributes or {})["failure.id"] for name in ("outer", "middle", "inner")}
    assert ids == {telemetry.only_event()["failure.id"]}
    assert len(telemetry.named("inner").events) == 1


def test_what_a_bound_leaves_out_is_said_where_there_is_no_log(telemetry: Telemetry) -> None:
    """The span that gets what is left of a chain or a group too large says that something is missing."""
    with telemetry.span("work"), pytest.raises(ExceptionGroup), observe("agent"):
        raise ExceptionGroup("g", [ValueError(str(index)) for index in range(200)])
    assert telemetry.count(semconv.METRIC_DROPPED, reason="causes") == 200 - limits.GROUP_MEMBERS
    assert (telemetry.named("work").attributes or {})["failure.omitted"] is True
    assert telemetry.reports()[0].report.omitted


def test_another_boundary_records_its_own_failure_caused_by_the_first(telemetry: Telemetry) -> None:
    """Each boundary that an exception crosses has one event, linked to the one below it."""

    @observe("agent")
    def agent() -> None:
        with observe("sandbox"):
            raise FailureError("provider_oom_killed", boundary="sandbox", reason="no memory")

    with telemetry.span("work"), pytest.raises(FailureError):
        agent()
    first, second = telemetry.events()
    assert (first["failure.kind"], first["failure.boundary"], first["failure.root"]) == (
        "provider_oom_killed",
        "sandbox",
        True,
    )
    assert (second["failure.kind"], second["failure.boundary"], second["failure.root"]) == (
        "agent_run_error",
        "agent",
        False,
    )
    assert second["failure.cause_id"] == first["failure.id"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()])
def test_every_exception_leaves_as_it_was(telemetry: Telemetry, error: BaseException) -> None:
    """Whatever leaves the block is the very same object, with its traceback, cause, context and args unchanged."""
    args, cause, context = error.args, error.__cause__, error.__context__
    with pytest.raises(type(error)) as caught, observe("agent"):
        raise error
    assert caught.value is error
    assert (error.args, error.__cause__, error.__context__) == (args, cause, context)
    assert telemetry.count() == 1


def test_cancellation_is_recorded_and_leaves_the_status_alone(telemetry: Telemetry) -> None:
    """CancelledError is an event of kind `cancelled`, counted, re-raised, with the span's status unset.

    Reported as a span that never ends well (opentelemetry-python#4484).
    """

    async def work() -> None:
        with telemetry.span("work"), observe("agent"):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert telemetry.only_event()["failure.kind"] == "cancelled"
    assert telemetry.named("work").status.status_code is StatusCode.UNSET
    assert telemetry.count(failure_kind="cancelled") == 1


def test_normal_close_of_a_generator_records_nothing(telemetry: Telemetry) -> None:
    """GeneratorExit ends a generator that nobody wants more of, and is no failure (opentelemetry-python#4484)."""

    def numbers() -> Iterator[int]:
        with observe("agent"):
            yield 1
            yield 2

    generator = numbers()
    assert next(generator) == 1
    generator.close()
    assert telemetry.count() == 0


def test_decorates_functions_and_coroutine_functions(telemetry: Telemetry) -> None:
    """The decorator keeps name, result and exceptions of sync and async functions, also in overlapping calls."""

    @observe("agent", span_name="call")
    def double(x: int) -> int:
        return 2 * x

    @observe("agent", span_name="call")
    async def fail(x: int) -> int:
        await asyncio.sleep(0)
        raise ValueError(x)

    async def main() -> list[BaseException | int]:
        return await asyncio.gather(*(fail(x) for x in range(3)), return_exceptions=True)

    assert double(2) == 4
    assert double.__name__ == "double"
    assert [error.args for error in asyncio.run(main()) if isinstance(error, ValueError)] == [(0,), (1,), (2,)]
    assert telemetry.count() == 3


@pytest.mark.parametrize("block", [observe, FailureLog])
def test_async_with_is_as_with(telemetry: Telemetry, block: type[observe | FailureLog]) -> None:
    """A block that `async with` opens gives what `with` gives, records what leaves it, and lets it go on unchanged."""
    error = ValueError("boom")

    async def main() -> None:
        async with block("agent") as opened:
            assert isinstance(opened, block)
            await asyncio.sleep(0)
            raise error

    with telemetry.span("work"), pytest.raises(ValueError, match="boom") as caught:
        asyncio.run(main())
    assert caught.value is error
    assert telemetry.named("work").status.status_code is StatusCode.ERROR
    assert telemetry.only_event()["failure.kind"] == "agent_run_error"


def test_generator_functions_are_refused_when_decorated() -> None:
    """A generator function is refused at decoration, because what runs between its steps is not its own."""

    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generators"):
        observe("agent")(numbers)


@pytest.mark.parametrize(("code", "failures"), [(None, 0), (0, 0), (1, 1), ("no configuration", 1), ([], 1)])
def test_a_program_that_ends_well_has_not_failed(telemetry: Telemetry, code: object, failures: int) -> None:
    """SystemExit is a failure only where its code says so."""
    with pytest.raises(SystemExit), observe("harness"):
        sys.exit(code)  # type: ignore[arg-type]
    assert telemetry.count(failure_kind="shutdown") == failures


@pytest.mark.parametrize(("boundary", "stage"), [("kitchen", None), ("agent", "lunch")])
def test_wrong_boundary_or_stage_raises_at_construction(boundary: str, stage: str | None) -> None:
    """A boundary or stage that does not exist is an error of the program, and raised where it is written."""
    with pytest.raises(ValueError, match="not a valid"):
        observe(boundary, stage=stage)


def test_broken_exception_is_recorded_with_a_stand_in(telemetry: Telemetry) -> None:
    """An exception whose str() raises is recorded by its type and leaves as it was (ray#44878)."""

    class Broken(Exception):  # noqa: N818 - its name is part of the case
        def __str__(self) -> str:
            raise ValueError("no text")

    error = Broken()
    with telemetry.span("work"), pytest.raises(Broken) as caught, observe("agent"):
        raise error
    assert caught.value is error
    found = telemetry.only_event()
    assert found["exception.type"].endswith("Broken")
    assert "no text" in found["failure.reason"]


def raising(error: BaseException) -> Never:
    """Raise `error`."""
    raise error


class OddError(BaseException):
    """An exception that few blocks catch."""


def hostile(raised: BaseException) -> Exception:
    """Return an exception of which every look brings about `raised`."""

    def look(_: object) -> object:
        raise raised

    names = (
        "failure_kind",
        "boundary",
        "status",
        "status_code",
        "headers",
        "response",
        "request",
        "request_info",
        "body",
    )
    return type(
        "HostileError", (OSError,), {"__str__": look, "errno": property(look), **dict.fromkeys(names, property(look))}
    )()


@pytest.mark.parametrize("raised", [SystemExit(1), GeneratorExit(), asyncio.CancelledError(), OddError()], ids=repr)
def test_a_look_at_an_exception_never_ends_the_program(telemetry: Telemetry, raised: BaseException) -> None:
    """What an exception's own properties and `str()` raise is taken as absent, whatever it is: only we had looked."""
    error = hostile(raised)
    with telemetry.span("work"), pytest.raises(OSError) as caught, FailureLog("agent"), observe("agent"):  # noqa: PT011
        raise error
    assert caught.value is error
    assert telemetry.only_event()["exception.type"].endswith("HostileError")


class LazyProxy:
    """A proxy that computes what it stands for at each look, and stands for nothing here."""

    def __init__(self, raised: BaseException) -> None:
        self._raised = raised

    @property
    def __class__(self) -> type:  # type: ignore[override]
        """Raise."""
        raise self._raised


def proxied(raised: BaseException, *names: str) -> Exception:
    """Return an exception some of whose attributes are proxies that stand for nothing."""
    return type("ProxiedError", (OSError,), dict.fromkeys(names, LazyProxy(raised)))()


@pytest.mark.parametrize("raised", [SystemExit(1), RuntimeError("unbound")], ids=repr)
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(lambda raised: proxied(raised, "status_code", "body"), id="status"),
        pytest.param(lambda raised: proxied(raised, "status_code", "code", "body"), id="code"),
        pytest.param(lambda raised: proxied(raised, "errno"), id="errno"),
        pytest.param(lambda raised: proxied(raised, "failure_kind", "boundary"), id="shape"),
        pytest.param(lambda raised: proxied(raised, "__module__"), id="module"),
        pytest.param(
            lambda raised: type("UpstreamError", (OSError,), {
                "failure_kind": "agent_timeout", "boundary": "agent",
                **dict.fromkeys(("event_id", "operation", "failure_reason", "http_status"), LazyProxy(raised)),
            })(),
            id="fields",
        ),
        pytest.param(
            lambda raised: type("OddError", (OSError,), {"__class__": property(lambda _: raising(raised))})(),
            id="the exception itself",
        ),
    ],
)  # fmt: skip
def test_a_lazy_proxy_on_an_exception_is_taken_as_absent(
    telemetry: Telemetry, error: Callable[[BaseException], Exception], raised: BaseException
) -> None:
    """What a proxy raises when it is asked for its class reaches nobody, and the failure is recorded (ray#44878)."""
    broken = error(raised)
    try:
        with telemetry.span("work"), FailureLog("agent"), observe("agent"):
            raising(broken)
    except BaseException as left:  # noqa: BLE001 - whatever it is
        assert left is broken  # noqa: PT017 - pytest.raises asks an exception for its class
    assert telemetry.only_event()["exception.type"].endswith("Error")
    assert telemetry.count() == 1


def test_the_code_of_a_program_s_end_may_refuse_to_be_compared(telemetry: Telemetry) -> None:
    """SystemExit may hold anything: what raises when it is compared is no 0, and the end stays as it was."""

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(SystemExit), observe("harness"):
        sys.exit(Incomparable())  # type: ignore[arg-type]
    assert telemetry.count(failure_kind="shutdown") == 1


def test_an_interrupt_passes_while_an_exception_is_looked_at(telemetry: Telemetry) -> None:
    """KeyboardInterrupt comes from outside at any place, and a program that is asked to stop does."""
    with telemetry.span("work"), pytest.raises(KeyboardInterrupt):
        record_failure(hostile(KeyboardInterrupt()), boundary="agent")


def test_same_exception_object_in_two_requests_is_two_failures(telemetry: Telemetry) -> None:
    """One exception object raised again in another request is a new event there, caused by the first."""
    shared = FailureError("session_lost", boundary="resources_server")
    reports = []
    for _ in range(3):
        with FailureLog("resources_server") as log:
            for _ in range(2):
                with pytest.raises(FailureError), observe("resources_server"):
                    raise shared
            reports.append(log.report())
    first, second, third = reports
    (origin,) = first.events
    assert len(second.events) == len(third.events) == 2
    for report in (second, third):
        (new,) = set(report.events) - {origin}
        assert report.events[new].cause_id == origin
        assert report.events[new].failure_kind == "session_lost"
    assert telemetry.count() == 3


def test_recording_outside_a_log_is_once_too(telemetry: Telemetry) -> None:
    """Without a log, the same exception recorded twice at one boundary is one event."""
    error = ValueError("x")
    with telemetry.span("work"):
        first = record_failure(error, boundary="harness")
        second = record_failure(error, boundary=FailureBoundary.HARNESS)
    assert first is not None
    assert first == second
    assert telemetry.count() == 1


def test_outside_of_traces_an_exception_raised_again_is_another_failure(telemetry: Telemetry) -> None:
    """An exception that a module makes once counts each time it is raised, and once however many observe it then."""
    constant = FailureError("agent_timeout", boundary="agent")
    for _ in range(5):
        with pytest.raises(FailureError), observe("harness"), observe("agent"), observe("agent"):
            raise constant
    assert telemetry.count(failure_kind="agent_timeout") == 5
    assert telemetry.count(failure_boundary="harness") == 5
    assert telemetry.count() == 10


def test_outside_of_traces_an_exception_on_its_way_out_is_one_failure(telemetry: Telemetry) -> None:
    """A block that began before an executor's thread recorded an exception lets it through as the same failure."""

    def work() -> None:
        with observe("agent"):
            raise ValueError("x")

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="x"), observe("agent"):
        pool.submit(work).result()
    assert telemetry.count() == 1


def test_own_span_of_observe_ends_with_the_summary(telemetry: Telemetry) -> None:
    """`span=` opens a span around the block; a failure leaves its summary there and no exception event."""
    with pytest.raises(ValueError, match="x"), observe("sandbox", span_name="sandbox.exec"):
        raise ValueError("x")
    span = telemetry.named("sandbox.exec")
    assert [event.name for event in span.events] == ["gym.failure"]
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["failure.id"] == telemetry.only_event()["failure.id"]


def test_ends_of_iterators_are_no_failures(telemetry: Telemetry) -> None:
    """StopIteration and StopAsyncIteration end an iteration, and nothing has failed (opentelemetry-python#4484)."""

    class Steps:
        def __aiter__(self) -> Self:
            return self

        @observe("model")
        async def __anext__(self) -> int:
            raise StopAsyncIteration

    async def collect() -> list[int]:
        return [step async for step in Steps()]

    with telemetry.span("work"):
        assert asyncio.run(collect()) == []
        with pytest.raises(StopIteration), observe("model"):
            next(iter(()))
    assert telemetry.events() == []
    assert telemetry.count() == 0


def test_object_that_is_called_as_a_coroutine_function_is_observed(telemetry: Telemetry) -> None:
    """What fails in an async `__call__` is recorded like what fails in a coroutine function."""

    class Agent:
        async def __call__(self) -> None:
            raise ValueError("x")

    with telemetry.span("work"), pytest.raises(ValueError, match="x"):
        asyncio.run(observe("agent")(Agent())())
    assert telemetry.count() == 1


def test_switched_off_it_opens_no_span() -> None:
    """With `enabled` false there is no trace of the package, not even the span that a block asks for."""
    with Telemetry(Config(enabled=False)) as telemetry:
        with pytest.raises(ValueError, match="x"), observe("agent", span_name="step"):
            raise ValueError("x")
        assert telemetry.spans() == ()


@pytest.mark.parametrize("within", [nullcontext, lambda: FailureLog("agent")], ids=["no log", "a log"])
@pytest.mark.parametrize(
    ("stage", "kind", "kept"),
    [
        pytest.param("verification", "verifier_error", FailureStage.VERIFICATION, id="its name"),
        pytest.param(FailureStage.VERIFICATION, "verifier_error", FailureStage.VERIFICATION, id="itself"),
        pytest.param("later", "resources_server:tool_error", None, id="none that exists"),
    ],
)
def test_a_stage_is_known_by_its_name(
    stage: FailureStage | str,
    kind: str,
    kept: FailureStage | None,
    within: Callable[[], AbstractContextManager[object]],
    telemetry: Telemetry,
) -> None:
    """The name of a stage chooses the kind as the stage does, and a wrong one costs its own field, not the failure."""
    with telemetry.span("work"), within():
        event = record_failure(ValueError("x"), boundary="resources_server", stage=stage)
    assert event is not None
    assert (event.failure_kind, event.stage, event.failure_reason) == (kind, kept, "x")


def test_a_stage_that_does_not_exist_is_warned_about(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who misspells a stage is told so, once."""
    monkeypatch.setattr(guard, "_said", {})
    with telemetry.span("work"):
        for _ in range(2):
            record_failure(ValueError("x"), boundary="agent", stage="later")
    assert caplog.messages == ["there is no stage later; the failure is recorded without one"]
