"""Spans written by hand, for tests of reading: short to say, and real in their shape."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import EventRecord, SpanKind, SpanLink, SpanRecord, SpanStatus
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.text import cut

TRACE = "0af7651916cd43dd8448eb211c80319c"


def failure(
    event_id: str,
    cause_id: str | None = None,
    *,
    boundary: FailureBoundary = FailureBoundary.AGENT,
    kind: str = "agent_run_error",
    reason: str = "",
) -> FailureEvent:
    """Return a failure of which only what matters to a test is said."""
    return FailureEvent(
        event_id=event_id, cause_id=cause_id, boundary=boundary, failure_kind=kind, failure_reason=reason
    )


def told(
    event: FailureEvent, *, origin: str = semconv.ORIGIN_LOCAL, late: bool = False, at: int = 0, dropped: int = 0
) -> EventRecord:
    """Return the span event that tells of a failure, `at` nanoseconds since the epoch."""
    return EventRecord(semconv.EVENT_NAME, at, to_attributes(event, origin=origin, late=late), dropped)


def relayed(event: FailureEvent, *, late: bool = False, at: int = 0) -> EventRecord:
    """Return the span event that tells of a failure which arrived in a reply."""
    return told(event, origin=semconv.ORIGIN_REMOTE, late=late, at=at)


def span(  # noqa: PLR0913 - a test says by name what it needs
    number: int,
    parent: int | None = None,
    *events: EventRecord,
    kind: SpanKind = SpanKind.INTERNAL,
    own: str | None = None,
    rollout: str | None = None,
    trace: str = TRACE,
    service: str | None = None,
    name: str = "work",
    end: int = 0,
    dropped: int = 0,
    status: SpanStatus = SpanStatus.UNSET,
    links: Sequence[SpanLink] = (),
    attributes: Mapping[str, object] | None = None,
) -> SpanRecord:
    """Return a span that starts at `number`; `own` is the id of its own failure."""
    said: dict[str, object] = dict(attributes or {})
    if own is not None:
        said[semconv.FAILURE_ID] = own
    if rollout is not None:
        said[semconv.NEMO_GYM_ROLLOUT_ID] = rollout
    return SpanRecord(
        trace_id=trace,
        span_id=span_id(number),
        parent_id=None if parent is None else span_id(parent),
        name=name,
        kind=kind,
        service=service,
        start_ns=number,
        end_ns=end or number + 1,
        status=status,
        attributes=said,
        events=list(events),
        links=list(links),
        dropped_events=dropped,
    )


def span_id(number: int) -> str:
    """Return a span's id from its number."""
    return f"{number:016x}"


def server(number: int, parent: int | None = None, *events: EventRecord, **said: object) -> SpanRecord:
    """Return a span of a server; see `span`."""
    return span(number, parent, *events, kind=SpanKind.SERVER, **said)


def client(number: int, parent: int | None = None, *events: EventRecord, **said: object) -> SpanRecord:
    """Return a span of a client; see `span`."""
    return span(number, parent, *events, kind=SpanKind.CLIENT, **said)


@dataclass
class Call:
    """One request as it really went: what the server observed, whom it called, and what it replied."""

    number: int
    local: list[FailureEvent] = field(default_factory=list)
    late: list[FailureEvent] = field(default_factory=list)
    """Observed after the reply."""
    calls: list[tuple["Call", bool]] = field(default_factory=list)
    """Whom the server called, and whether the reply came back."""
    own: str | None = None
    header_reason: int = 256
    """Characters of a reason that this server's replies carry."""

    @property
    def span_id(self) -> str:
        """The id of the server's span."""
        return span_id(2 * self.number)

    def requests(self) -> Iterator["Call"]:
        """Yield this request and all beneath it."""
        yield self
        for call, _ in self.calls:
            yield from call.requests()

    def sent(self) -> FailureReport:
        """Return what the server knew, whole, when it replied."""
        events = {event.event_id: event for event in self.local}
        for call, replied in self.calls:
            if replied:
                events |= call.sent().events
        return FailureReport(events=events, failure_id=self.own)

    def spans(self, parent: int | None = None) -> Iterator[SpanRecord]:
        """Yield what the processes stored."""
        here = 2 * self.number
        told_of = [*map(told, self.local), *(told(event, late=True) for event in self.late)]
        yield server(here, parent, *told_of, own=self.own)
        for call, replied in self.calls:
            arrived = call.sent().events.values() if replied else ()
            shortened = (
                event.model_copy(update={"failure_reason": cut(event.failure_reason, call.header_reason)})
                for event in arrived
            )
            yield client(2 * call.number + 1, here, *map(relayed, shortened))
            yield from call.spans(2 * call.number + 1)
