"""Made-up call trees of servers, run in one process through the real log, header and recorder.

Each server is what a middleware would make of it: a SERVER span, a log, an own failure settled at the reply, a header,
and the last comment of an event stream that broke. A run keeps what every server sent, so that it can be compared with
what the spans tell. `strategies.server_trees` draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import SpanKind, TracerProvider

from gym_failures.errors import FailureError, error_from
from gym_failures.header import decode_report, encode
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.operations import operation
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import observe, record_failure
from gym_failures.records import FailureReport
from gym_failures.streams import CommentReader, comment_line

OUTCOMES: Final = ("ok", "raise", "group", "status", "fail", "stream")
"""How a request can end, unless a step has ended it: of these, "stream" answers 200 and breaks after its last step."""


@dataclass(frozen=True)
class Raise:
    """Something fails in the server: what is raised, and whether it is caught there."""

    how: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Call:
    """The server calls another one: what each attempt meets, and what it does with a failure in the end.

    What is lost of a reply is all of it, or the end of a stream.
    """

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


class Reply(NamedTuple):
    """What a server answers its caller."""

    status: int
    header: str | None
    ending: bytes = b""
    """The last of a stream that broke."""


@dataclass
class Sent:
    """What one server sent: in the header of its reply, or at the end of its stream."""

    span_id: str
    report: FailureReport | None


@dataclass
class Run:
    """A run of one tree."""

    provider: TracerProvider
    recorder: FailureRecorder
    sent: list[Sent] = field(default_factory=list)

    def serve(self, server: Server) -> Reply:
        """Serve one request."""
        tracer = self.provider.get_tracer("servers")
        with tracer.start_as_current_span(
            server.boundary.value, kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            at = len(server.steps) - (server.outcome == "stream")
            log = FailureLog(server.boundary, recorder=self.recorder)
            with log.activate():
                error, status, relayed = self._handle(replace(server, steps=server.steps[:at]), log)
                own = log.settle(error, status=status, relayed_id=relayed)
                reply = Reply(status, self._sent(log, span))
                log.seal()
                for number in range(server.after):
                    record_failure(ValueError(f"late {number}"))
                if server.outcome == "stream" and error is None:
                    error, _, _ = self._handle(replace(server, steps=server.steps[at:], outcome="raise"), log)
                    log.settle(error)
                    reply = reply._replace(ending=comment_line(self._sent(log, span), after=b"data: {"))
            log.close()
            assert own is None or status >= 500 or server.outcome == "fail"
        return reply

    def _sent(self, log: FailureLog, span: trace.Span) -> str | None:
        header = encode(log.report()).value if log.has_failures else None
        span_id = f"{span.get_span_context().span_id:016x}"
        self.sent.append(Sent(span_id, None if header is None else decode_report(header)))
        return header

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
                    reply = self.serve(target)
                    if not lost or reply.ending:
                        report = None if reply.header is None else log.observe_reply(reply.header)
                    if lost:
                        record_failure(ConnectionResetError("the reply was lost"))
                        continue
                    if reply.ending:
                        report = log.observe_reply(_told_at_the_end(reply.ending))
                    elif reply.status < 500:
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


def _told_at_the_end(ending: bytes) -> FailureReport:
    reader = CommentReader()
    reader.feed(ending)
    assert reader.report is not None
    return reader.report


def run(tree: Server, provider: TracerProvider, recorder: FailureRecorder) -> Run:
    """Run a tree from its topmost server; spans go to `provider`."""
    done = Run(provider, recorder)
    assert not trace.get_current_span().is_recording()
    done.serve(tree)
    return done
