"""Made-up call trees of servers, run in one process through the real log, header and recorder.

Each server is what a middleware would make of it: a SERVER span, a log, an own failure settled at the reply, a header.
A run keeps what every server sent, so that it can be compared with what the spans tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind

from gym_failures.errors import FailureError, error_from
from gym_failures.header import decode_report, encode
from gym_failures.kinds import FAILURE_KINDS, FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.operations import operation
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import observe, record_failure
from gym_failures.records import FailureReport

BOUNDARIES = tuple(FailureBoundary)


@dataclass(frozen=True)
class Raise:
    """Something fails in the server: what is raised, and whether it is caught there."""

    how: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Call:
    """The server calls another one: what each attempt meets, and what it does with a failure in the end."""

    attempts: Sequence["Server"]
    lost: Sequence[bool]
    raise_on_failure: bool


@dataclass(frozen=True)
class Server:
    """One request to one server."""

    boundary: FailureBoundary
    steps: Sequence[Raise | Call]
    outcome: str
    after: int
    """Failures after the reply's header was written."""


@dataclass
class Sent:
    """What one server sent, and what it could not send any more."""

    span_id: str
    report: FailureReport | None
    was_cut: bool
    status: int


@dataclass
class Run:
    """A run of one tree."""

    provider: TracerProvider
    recorder: FailureRecorder
    sent: list[Sent] = field(default_factory=list)

    def serve(self, server: Server) -> tuple[int, str | None]:
        """Serve one request; returns the status and the header value."""
        tracer = self.provider.get_tracer("servers")
        with tracer.start_as_current_span(
            server.boundary.value, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            log = FailureLog(server.boundary, recorder=self.recorder)
            with log.activate():
                error, status, relayed = self._handle(server, log)
                own = log.settle(error, status=status, relayed_id=relayed)
                header = encode(log.report()) if log.has_failures else None
                log.seal()
                for number in range(server.after):
                    record_failure(ValueError(f"late {number}"))
            log.close()
            context = span.get_span_context()
            assert own is None or status >= 500 or server.outcome == "fail"
        self.sent.append(
            Sent(
                f"{context.span_id:016x}",
                None if header is None else decode_report(header.value),
                header is not None and header.was_cut,
                status,
            )
        )
        return status, None if header is None else header.value

    def _handle(self, server: Server, log: FailureLog) -> tuple[BaseException | None, int, str | None]:
        relayed: str | None = None
        try:
            for step in server.steps:
                if isinstance(step, Raise):
                    try:
                        with observe(server.boundary):
                            throw(step)
                    except Exception:  # noqa: BLE001, S110 - the server recovers from it
                        pass
                else:
                    relayed = self._call(step, log) or relayed
            if server.outcome == "raise":
                throw(Raise("chain", "agent_run_error", "it broke"))
            if server.outcome == "group":
                throw(Raise("group", "agent_run_error", "they broke"))
        except Exception as error:  # noqa: BLE001 - whatever left the handler
            return error, 500, None
        if server.outcome == "fail":
            log.fail(FailureError("judge_failed", boundary=server.boundary, reason="no verdict"))
        return None, 503 if server.outcome == "status" else 200, relayed

    def _call(self, call: Call, log: FailureLog) -> str | None:
        tracer = self.provider.get_tracer("clients")
        report: FailureReport | None = None
        with operation() as attempts:
            for target, lost in zip(call.attempts, call.lost, strict=True):
                attempts.begin_attempt()
                with tracer.start_as_current_span("call", kind=SpanKind.CLIENT):
                    status, header = self.serve(target)
                    if lost:
                        record_failure(ConnectionResetError("the reply was lost"))
                        continue
                    report = None if header is None else log.observe_reply(header)
                    if status < 500:
                        break
        if call.raise_on_failure and report is not None and (error := error_from(report)) is not None:
            raise RuntimeError("the call failed") from error
        return None if report is None else report.failure_id


def throw(step: Raise) -> None:
    """Raise what the step says."""
    if step.how == "plain":
        raise ValueError(step.reason)
    if step.how == "chain":
        try:
            raise OSError(step.reason)  # noqa: TRY301 - raised to be caught
        except OSError as cause:
            failure = FailureError(step.kind, boundary="sandbox", reason=step.reason)
            failure.__cause__ = cause
            raise RuntimeError("outer") from failure
    if step.how == "implicit":
        try:
            raise OSError(step.reason)  # noqa: TRY301 - raised to be caught
        except OSError:
            raise FailureError(step.kind, boundary="harness", reason=step.reason)  # noqa: B904 - no cause is the point
    raise ExceptionGroup(
        step.reason, [ValueError(step.reason), ExceptionGroup("in", [FailureError(step.kind, boundary="model")])]
    )


_raises = st.builds(
    Raise,
    how=st.sampled_from(["plain", "chain", "implicit", "group"]),
    kind=st.sampled_from([*sorted(FAILURE_KINDS), "flaky:tool_error", "unheard_of"]),
    reason=st.text(max_size=40) | st.just("深" * 300),
)


def _servers(children: st.SearchStrategy[Server]) -> st.SearchStrategy[Server]:
    calls = st.lists(st.tuples(children, st.booleans()), min_size=1, max_size=3).flatmap(
        lambda pairs: st.builds(
            Call,
            attempts=st.just([server for server, _ in pairs]),
            lost=st.just([lost for _, lost in pairs]),
            raise_on_failure=st.booleans(),
        )
    )
    return st.builds(
        Server,
        boundary=st.sampled_from(BOUNDARIES),
        steps=st.lists(_raises | calls, max_size=3),
        outcome=st.sampled_from(["ok", "raise", "group", "status", "fail"]),
        after=st.integers(0, 2),
    )


servers = st.recursive(
    st.builds(
        Server,
        boundary=st.sampled_from(BOUNDARIES),
        steps=st.lists(_raises, max_size=3),
        outcome=st.sampled_from(["ok", "raise", "group", "status", "fail"]),
        after=st.integers(0, 2),
    ),
    _servers,
    max_leaves=6,
)


def run(tree: Server, provider: TracerProvider, recorder: FailureRecorder) -> Run:
    """Run a tree from its topmost server; spans go to `provider`."""
    done = Run(provider, recorder)
    assert not trace.get_current_span().is_recording()
    done.serve(tree)
    return done
