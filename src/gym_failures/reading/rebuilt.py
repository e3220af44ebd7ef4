"""One report as spans tell it, and what is known about its completeness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gym_failures import semconv
from gym_failures.reading.model import Span, SpanRecord, whole
from gym_failures.reading.outcome import Units, broken, outcome
from gym_failures.reading.witness import Copy, Witness
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.repair import chain_ids, repair


@dataclass(frozen=True, slots=True)
class RebuiltReport:
    """A report that was put together from spans; every tuple holds ids of events, in the order of their times."""

    report: FailureReport
    """Always legal: a cause that no span tells of is cut from the event, and then `omitted` is set."""
    key: str | None
    """Id of the trace, of the request's span or of the rollout; None for spans whose rollout is not known."""
    trace_id: str
    """The trace; of a rollout with several, that of `span`."""
    traces: frozenset[str]
    """Ids of all traces that tell of it."""
    span: SpanRecord
    """The span that says how it ended; where none does, the first one."""
    failed: bool
    """Whether its own failure is named, or else a status says that it failed: of a server beneath no other, or of the
    first span, unless that is a call; so does a line in a log, where no such span was stored. If so,
    `report.failure_id` is None where that failure's event is lost or nothing names it, as where servers have no
    boundary."""
    missing_causes: tuple[str, ...]
    """What is named, as a cause or as the own failure, and told of by no span."""
    circular_causes: tuple[str, ...]
    """Events whose cause was cut because it led round in a circle."""
    dropped_events: int
    """Events that spans lost before they were stored, by their own count. They need not all have been failures."""
    unreadable: int
    """Failure events without a usable id, kind or boundary."""
    recovered: tuple[str, ...]
    """Events when there was no failure of its own, but for those that came late."""
    unlinked: tuple[str, ...]
    """Events that are not among the causes of its own failure, but for those that came late: recovered from, or raised
    without `from`."""
    late: tuple[str, ...]
    """Events that came after the reply, so that the caller does not know of them."""
    unseen: tuple[str, ...]
    """Events that the request's own process does not know of, only another further down: a reply was lost, cut or not
    believed. Known by request only."""
    remote_only: tuple[str, ...]
    """Events known from replies only: the process that observed them stored no span."""
    services: Mapping[str, str]
    """The service that observed an event, by the event's id; only what its own process told."""
    cut: tuple[str, ...]
    """Events whose best copy lacks an attribute or the end of a text, as far as counts and marks tell: a limit on the
    length of values leaves no mark where it is below 14 characters, or is not the SDK's."""
    times: Mapping[str, int]
    """When an event was recorded, in nanoseconds since the epoch, by the event's id; 0 where no span says."""

    @property
    def chain(self) -> tuple[FailureEvent, ...]:
        """Its own failure and the causes of that, the root cause last; empty where no failure of its own is known."""
        events = self.report.events
        return tuple(events[event_id] for event_id in chain_ids(events, self.report.failure_id))

    @property
    def root(self) -> FailureEvent | None:
        """The failure that everything began with; None where it recovered, or where its own failure is not known."""
        chain = self.chain
        return chain[-1] if chain else None


def without_spans(report: FailureReport, span: SpanRecord) -> RebuiltReport:
    """Return what is known of a report that is all there is, such as one out of a reply.

    `span` stands for the one that no store has, and gives the report its trace.
    """
    chain = frozenset(chain_ids(report.events, report.failure_id))
    beside = tuple(event_id for event_id in report.events if event_id not in chain)
    failed = report.failure_id is not None
    return RebuiltReport(
        report=report,
        key=None,
        trace_id=span.trace_id,
        traces=frozenset((span.trace_id,)),
        span=span,
        failed=failed,
        missing_causes=(),
        circular_causes=(),
        dropped_events=0,
        unreadable=0,
        recovered=() if failed else beside,
        unlinked=beside if failed else (),
        late=(),
        unseen=(),
        remote_only=(),
        services={},
        cut=(),
        times=dict.fromkeys(report.events, 0),
    )


class Group(NamedTuple):
    """The spans that one report is made of."""

    key: str | None
    first: Span
    heard: Sequence[Witness]
    """Those that say something about failures, in the order of their forest."""
    outermost: Sequence[Span]
    """Those whose status says whether all failed."""
    dropped_events: int
    request: int | None = None
    """Position of the server's span when the group is a request, else None."""


def report_of(group: Group, units: Units) -> RebuiltReport:
    """Put together what the spans of `group` say."""
    best: dict[str, Copy] = {}
    in_time: dict[str, bool] = {}
    own: dict[str, bool] = {}
    services: dict[str, str] = {}
    for witness in group.heard:
        is_own = units.head_of[witness.position] == group.request
        for copy in witness.copies:
            event_id = copy.event.event_id
            known = best.get(event_id)
            if known is None or copy.worth > known.worth:
                best[event_id] = copy
            in_time[event_id] = in_time.get(event_id, False) or not copy.late
            if is_own:
                own[event_id] = own.get(event_id, False) or not copy.late
            if copy.origin == semconv.ORIGIN_LOCAL and copy.service is not None:
                services.setdefault(event_id, copy.service)
    ids = sorted(best, key=lambda event_id: (best[event_id].time_ns, event_id))
    events = {event_id: best[event_id].event for event_id in ids}
    if group.request is None:
        end = outcome(group.heard, units, events)
    else:  # a request ended as its server's span says
        end = next((witness for witness in group.heard if witness.position == group.request), None)
    own_id = None if end is None else end.own_id
    unreadable = sum(witness.unreadable for witness in group.heard)
    omitted = bool(unreadable or group.dropped_events or any(witness.omitted for witness in group.heard))
    report, missing, circular = repair(events, failure_id=own_id, omitted=omitted)
    # What a process was told late it did not know in time, whatever others knew.
    late = {event_id for event_id in ids if not own.get(event_id, in_time[event_id])}
    chain = {*chain_ids(report.events, report.failure_id)}
    beside = tuple(event_id for event_id in ids if event_id not in late and event_id not in chain)
    # Where lines in a log are all there is, nothing says that it recovered, and they must not be passed over.
    outermost = group.outermost or [witness.span for witness in group.heard if witness.span.is_lost]
    failing = broken(outermost) if end is None or own_id is None else end.span
    failed = failing is not None
    span = failing or (whole(group.first) if end is None else end.span)
    return RebuiltReport(
        report=report,
        key=group.key,
        trace_id=span.trace_id,
        traces=frozenset((span.trace_id, *(witness.span.trace_id for witness in group.heard))),
        span=span,
        failed=failed,
        missing_causes=missing,
        circular_causes=circular,
        dropped_events=group.dropped_events,
        unreadable=unreadable,
        recovered=() if failed else beside,
        unlinked=beside if failed else (),
        late=tuple(event_id for event_id in ids if event_id in late),
        unseen=tuple(
            event_id for event_id in ids if group.request is not None and event_id not in own and event_id not in late
        ),
        remote_only=tuple(event_id for event_id in ids if best[event_id].origin == semconv.ORIGIN_REMOTE),
        services=services,
        cut=tuple(event_id for event_id in ids if best[event_id].cut),
        times={event_id: best[event_id].time_ns for event_id in ids},
    )
