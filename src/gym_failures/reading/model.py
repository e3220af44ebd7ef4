"""What any trace store knows of a span, in one shape.

Every source turns what it holds into `SpanRecord`s; what comes after them knows no store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from gym_failures import limits

LOST_PARENT: Final = "0" * 16
"""Parent of a span of which only lines in a log are left: not known, which is not the same as none."""


class SpanKind(IntEnum):
    """What a span is to its trace; the numbers are those of OTLP."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class SpanStatus(IntEnum):
    """How a span ended; the numbers are those of OTLP."""

    UNSET = 0
    OK = 1
    ERROR = 2


@dataclass(slots=True)
class EventRecord:
    """One event of a span.

    `time_ns` is nanoseconds since the epoch, 0 where the store has none. `dropped_attributes` counts what the SDK left
    out and what could not be read.
    """

    name: str
    time_ns: int = 0
    attributes: Mapping[str, object] = field(default_factory=dict)
    dropped_attributes: int = 0


class SpanLink(NamedTuple):
    """Another span that a span points to, by the ids of both."""

    trace_id: str
    span_id: str


@dataclass(slots=True)
class SpanRecord:
    """One span as it was stored.

    Ids are lower-case hex. `parent_id` is None for the first span of a trace; a parent need not have been stored.
    `service` is the `service.name` of `resource`, None where there is none. Times are nanoseconds since the epoch, 0
    where the store has none. `dropped_events` and `dropped_attributes` count what the SDK left out and what could not
    be read. A value is a str, bool, int, float, bytes, or a list or dict of these.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    kind: SpanKind = SpanKind.UNSPECIFIED
    service: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    status: SpanStatus = SpanStatus.UNSET
    attributes: Mapping[str, object] = field(default_factory=dict)
    events: Sequence[EventRecord] = ()
    links: Sequence[SpanLink] = ()
    dropped_events: int = 0
    dropped_attributes: int = 0
    resource: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether nothing was stored of it, and it is known from lines in a log only."""
        return self.parent_id == LOST_PARENT


class QuietSpan(Protocol):
    """A stored span that tells of no failure, and so matters only for where it stands among others.

    Its fields are those of `SpanRecord`, but that `parent_id` may be empty.
    """

    @property
    def trace_id(self) -> str: ...  # noqa: D102 - as above, and so for the others
    @property
    def span_id(self) -> str: ...  # noqa: D102
    @property
    def parent_id(self) -> str | None: ...  # noqa: D102
    @property
    def kind(self) -> SpanKind: ...  # noqa: D102
    @property
    def start_ns(self) -> int: ...  # noqa: D102
    @property
    def end_ns(self) -> int: ...  # noqa: D102
    @property
    def dropped_events(self) -> int: ...  # noqa: D102
    @property
    def service(self) -> str | None: ...  # noqa: D102

    def may_have(self, key: str) -> bool:
        """Tell whether the span may have an attribute of that name; if not, it need not be read."""
        ...

    def record(self) -> SpanRecord:
        """Read the whole span."""
        ...


Span = SpanRecord | QuietSpan


def whole(span: Span) -> SpanRecord:
    """Return all that was stored of `span`."""
    return span if isinstance(span, SpanRecord) else span.record()


class Skip(NamedTuple):
    """Something that could not be read.

    `line` counts lines, or the records of a file that has none, from 1; 0 is no place in particular. `reason` says what
    was wrong and where, never what stood there. `source` names the file where several were read; it is empty where
    there was one.
    """

    line: int
    reason: str
    source: str = ""

    @property
    def where(self) -> str:
        """The place, for people."""
        return ", ".join(part for part in (self.source, f"line {self.line}" if self.line else "") if part) or "the text"


class Parsed(NamedTuple):
    """What a text held: the spans that could be read, and all that was skipped."""

    spans: list[SpanRecord]
    skipped: list[Skip]


@dataclass(slots=True)
class Tally:
    """How well a source could be read."""

    named: int | None = limits.SKIPS_NAMED
    """How many skips are kept by name; None keeps all."""
    spans: int = 0
    """Spans that could be read, those that nobody wanted too."""
    others: int = 0
    """Records of metrics, logs and profiles, which are passed over."""
    skips: int = 0
    """How much could not be read."""
    skipped: list[Skip] = field(default_factory=list)
    """The first of the skips."""

    def skip(self, line: int, reason: str) -> None:
        """Count one more skip, and keep it if it is among the first."""
        self.skips += 1
        if self.named is None or len(self.skipped) < self.named:
            self.skipped.append(Skip(line, reason))

    def add(self, other: "Tally", *, after: int) -> None:
        """Add the tally of what comes `after` so many lines of the same source."""
        self.spans += other.spans
        self.others += other.others
        self.skips += other.skips
        left = None if self.named is None else self.named - len(self.skipped)
        self.skipped += (skip._replace(line=skip.line + after) for skip in other.skipped[:left])
