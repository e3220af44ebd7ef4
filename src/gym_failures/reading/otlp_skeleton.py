"""The skeletons of spans, which is what is decoded of every one, and the rest of a span where it is asked for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from gym_failures import limits, semconv
from gym_failures.reading.model import SpanKind, SpanRecord
from gym_failures.reading.otlp_contents import NOTHING, decoded, read_attributes, read_events, read_links, read_status
from gym_failures.reading.otlp_values import SPAN_ID_SIZE, TRACE_ID_SIZE, attributes, hex_id
from gym_failures.reading.search import find

# Looked for in undecoded JSON: these names are ASCII, which no writer escapes, and one found for nothing costs little.
_ATTRIBUTE: Final = b'"failure.'
_EVENT: Final = f'"{semconv.EVENT_NAME}"'.encode()

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=limits.LATEST_TIME)]


Processes = dict[bytes, Mapping[str, object]]
"""The attributes of processes, by their resources as those were written: a file repeats them in every line."""


class Process:
    """The process that a resource stands for, whose attributes are decoded for the first span that needs them."""

    __slots__ = ("_known", "_resource")

    def __init__(self, resource: msgspec.Raw, known: Processes) -> None:
        """Take the resource undecoded, and the processes that are known so far."""
        self._resource = resource
        self._known = known

    def __reduce__(self) -> tuple[object, ...]:
        """Leave behind, when it is pickled, what else is known."""
        return _process, (bytes(self._resource),)

    @property
    def attributes(self) -> Mapping[str, object]:
        """The attributes of the resource; none where it cannot be read."""
        written = bytes(self._resource)
        found = self._known.get(written)
        if found is None:
            contents = decoded(self._resource)
            found = attributes(contents.get("attributes"))[0] if isinstance(contents, dict) else {}
            self._known[written] = found
        return found


class SpanSkeleton(
    msgspec.Struct,
    gc=False,
    rename={
        "trace_id": "traceId",
        "span_id": "spanId",
        "parent_id": "parentSpanId",
        "start_ns": "startTimeUnixNano",
        "end_ns": "endTimeUnixNano",
        "dropped_events": "droppedEventsCount",
        "dropped_attributes": "droppedAttributesCount",
        "process": "",
    },
):
    """What is decoded of every span; a `QuietSpan` once it has its process, and ids without capitals."""

    trace_id: Annotated[str, msgspec.Meta(min_length=2 * TRACE_ID_SIZE, max_length=2 * TRACE_ID_SIZE)]
    span_id: Annotated[str, msgspec.Meta(min_length=2 * SPAN_ID_SIZE, max_length=2 * SPAN_ID_SIZE)]
    parent_id: str = ""
    name: str = ""
    kind: SpanKind = SpanKind.UNSPECIFIED
    start_ns: _Time = 0
    end_ns: _Time = 0
    dropped_events: _Count = 0
    dropped_attributes: _Count = 0
    attributes: msgspec.Raw = NOTHING
    events: msgspec.Raw = NOTHING
    links: msgspec.Raw = NOTHING
    status: msgspec.Raw = NOTHING
    process: Any = None
    """The `Process`, which a file cannot give: it is set after decoding."""

    def __reduce__(self) -> tuple[object, ...]:
        """Be pickled as JSON: that is quick, and takes nothing along of the text that the span stands in."""
        return _span, (_WITHOUT_PROCESS.encode(self), self.process)

    def record(self) -> SpanRecord:
        """Read the whole span."""
        own, unreadable = read_attributes(self.attributes)
        events, lost = read_events(self.events)
        return SpanRecord(
            trace_id=self.trace_id.lower(),
            span_id=self.span_id.lower(),
            parent_id=hex_id(self.parent_id, SPAN_ID_SIZE),
            name=self.name,
            kind=self.kind,
            service=self.service,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            status=read_status(self.status),
            attributes=own,
            events=events,
            links=read_links(self.links),
            dropped_events=self.dropped_events + lost,
            dropped_attributes=self.dropped_attributes + unreadable,
            resource=self.process.attributes,
        )

    @property
    def service(self) -> str | None:
        """The name of the service that the process is of."""
        name = self.process.attributes.get("service.name")
        return name if isinstance(name, str) else None

    def may_have(self, key: str) -> bool:
        """Tell whether the span may have an attribute of that name."""
        return find(bytes(self.attributes), key.encode()) >= 0

    def tells(self) -> bool:
        """Return whether the span may tell of a failure."""
        return find(bytes(self.attributes), _ATTRIBUTE) >= 0 or (
            self.events is not NOTHING and find(bytes(self.events), _EVENT) >= 0
        )


class ScopeSkeleton(msgspec.Struct, gc=False):
    """The spans of one instrumentation scope."""

    spans: list[SpanSkeleton]


class ResourceSkeleton(msgspec.Struct, gc=False, rename="camel"):
    """The spans of one resource, which stands for a process."""

    scope_spans: list[ScopeSkeleton]
    resource: msgspec.Raw = NOTHING


class RequestSkeleton(msgspec.Struct, gc=False, rename="camel"):
    """One export, which is what a line holds."""

    resource_spans: list[ResourceSkeleton]


# Not strict, because 64-bit numbers are text in JSON.
REQUEST: Final = msgspec.json.Decoder(RequestSkeleton, strict=False)
SPAN: Final = msgspec.json.Decoder(SpanSkeleton, strict=False)
_WITHOUT_PROCESS: Final = msgspec.json.Encoder(enc_hook=lambda _process: None)


def _process(resource: bytes) -> Process:
    return Process(msgspec.Raw(resource), {})


def _span(text: bytes, process: Process) -> SpanSkeleton:
    span = SPAN.decode(text)
    span.process = process
    return span


def spans_of(resources: Iterable[ResourceSkeleton], known: Processes | None = None) -> Iterator[SpanSkeleton]:
    """Yield the spans of all resources, each with its process; `known` saves reading a process again."""
    known = {} if known is None else known
    for resource in resources:
        process = Process(resource.resource, known)
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.process = process
                yield span
