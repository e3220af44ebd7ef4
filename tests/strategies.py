"""Every Hypothesis strategy of the tests: each draws what its record allows, and nothing else.

Those that others are made of are cached: to build them again in every draw would take longer than the draw.
"""

import base64
import functools
import itertools
import string
from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from gym_failures import kinds, limits, semconv
from gym_failures.attributes import to_attributes
from gym_failures.exceptions import FailureError
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.reading import EventRecord, SpanKind, SpanRecord, SpanStatus
from gym_failures.records import (
    EpisodeFailure,
    FailureDetails,
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from gym_failures.wire import to_tree
from tests import calltrees, spans

# What has broken exporters, headers or logs somewhere, in one alphabet.
_AWKWARD = "模型服务超时서버🔥👩‍🚀🏳️‍🌈\0\r\n\t\x1b\x7f\u202e\u2028\ufeff\ufffd+%=,;:/\\\"'{}[]…~ a"
_SURROGATES = "\ud800\udbff\udc00\udfff"


@functools.cache
def texts(max_size: int, *, min_size: int = 0, surrogates: bool = False) -> st.SearchStrategy[str]:
    """Draw text of `min_size` to `max_size` characters; with `surrogates`, lone ones are frequent, else there are none.

    Half of it is any text, half is of awkward characters only. The longest text is drawn often, because bounds fail at
    their edge; it repeats a short piece, because to draw each of 2,000 characters would cost more than the test.
    """
    alphabets = [st.characters(codec="utf-8"), st.sampled_from(_AWKWARD)]
    if surrogates:
        alphabets.append(st.sampled_from(_AWKWARD + _SURROGATES * 4))
    short = [st.text(alphabet, min_size=min_size, max_size=min(max_size, min_size + 20)) for alphabet in alphabets]
    pieces = st.one_of([st.text(alphabet, min_size=1, max_size=4) for alphabet in alphabets])
    long = st.builds(
        lambda piece, size: (piece * size)[:size], pieces, st.sampled_from([max_size, max(min_size, max_size - 1)])
    )
    return st.one_of(*short, long)


@functools.cache
def event_ids(*, wire: bool = True, surrogates: bool = False) -> st.SearchStrategy[str]:
    """Draw ids as they come from anywhere: hex as ours, and any text.

    With `wire` each has the 1 to 128 characters that fit the wire; without, it may be empty or longer, as in a record.
    """
    ours = st.text("0123456789abcdef", min_size=32, max_size=32)
    lengths = {"min_size": 1, "max_size": limits.WIRE_ID_LENGTH} if wire else {"max_size": 2 * limits.WIRE_ID_LENGTH}
    return ours | texts(**lengths, surrogates=surrogates)


@functools.cache
def failure_kinds(*, wire: bool = True, surrogates: bool = False) -> st.SearchStrategy[str]:
    """Draw kinds: registered, namespaced, and any text, for unregistered ones are kept; `wire` as in `event_ids`."""
    namespaced = st.from_regex(r"[a-z][a-z0-9_]{0,20}:[a-z][a-z0-9_]{0,20}", fullmatch=True)
    return st.sampled_from(sorted(kinds.FAILURE_KINDS)) | namespaced | event_ids(wire=wire, surrogates=surrogates)


_NAMES = st.none() | texts(limits.NAME_LENGTH)
_IDS = st.none() | texts(limits.ID_LENGTH)
_HTTP_STATUSES = st.none() | st.integers(limits.HTTP_STATUS_MIN, limits.HTTP_STATUS_MAX)


@functools.cache
def sdk_error_details() -> st.SearchStrategy[SdkErrorDetails]:
    """Draw what an adapter kept of a foreign error."""
    return st.builds(
        SdkErrorDetails,
        exception_type=texts(limits.TYPE_NAME_LENGTH, min_size=1),
        message=texts(limits.REASON_LENGTH),
        http_status=_HTTP_STATUSES,
    )


@functools.cache
def sandbox_details() -> st.SearchStrategy[SandboxFailureDetails]:
    """Draw sandbox facts, those with nothing observed too."""
    return st.builds(
        SandboxFailureDetails,
        provider=_NAMES,
        sandbox_id=_NAMES,
        execution_id=_NAMES,
        exit_code=st.none() | st.integers(),
        provider_status_reason=st.none() | texts(limits.REASON_LENGTH),
    )


@functools.cache
def model_details() -> st.SearchStrategy[ModelFailureDetails]:
    """Draw model facts, those with nothing observed too."""
    return st.builds(ModelFailureDetails, provider_request_id=_NAMES, request_upload_complete=st.none() | st.booleans())


@functools.cache
def details_for(boundary: FailureBoundary) -> st.SearchStrategy[FailureDetails | None]:
    """Draw the details that `boundary` allows; None is always one of them."""
    match boundary:
        case FailureBoundary.SANDBOX:
            return st.none() | sandbox_details()
        case FailureBoundary.MODEL:
            return st.none() | model_details()
        case _:
            return st.none()


@st.composite
def failure_events(
    draw: st.DrawFn,
    *,
    event_id: str | None = None,
    cause_id: str | None = None,
    wire: bool = True,
    surrogates: bool = False,
) -> FailureEvent:
    """Draw an event with the given id and cause; without an id one is drawn, without a cause it has none.

    `wire` as in `event_ids`; `surrogates` puts lone ones where the records let them in, into the id and the kind.
    """
    boundary = draw(st.sampled_from(FailureBoundary))
    return FailureEvent(
        event_id=draw(event_ids(wire=wire, surrogates=surrogates)) if event_id is None else event_id,
        boundary=boundary,
        failure_kind=draw(failure_kinds(wire=wire, surrogates=surrogates)),
        failure_reason=draw(texts(limits.REASON_LENGTH)),
        stage=draw(st.none() | st.sampled_from(FailureStage)),
        operation=draw(_NAMES),
        operation_id=draw(_IDS),
        attempt_id=draw(_IDS),
        exception_type=draw(st.none() | texts(limits.TYPE_NAME_LENGTH)),
        http_status=draw(_HTTP_STATUSES),
        cause_id=cause_id,
        foreign_error=draw(st.none() | sdk_error_details()),
        details=draw(details_for(boundary)),
    )


@st.composite
def forests(
    draw: st.DrawFn, *, min_size: int = 0, max_size: int = 6, wire: bool = True, surrogates: bool = False
) -> dict[str, str | None]:
    """Draw ids with the id of each one's cause: any forest, in any order, so a cause may follow its effect."""
    ids = draw(st.lists(event_ids(wire=wire, surrogates=surrogates), min_size=min_size, max_size=max_size, unique=True))
    causes = {event_id: draw(_one_of(ids[:index])) for index, event_id in enumerate(ids)}
    return {event_id: causes[event_id] for event_id in draw(st.permutations(ids))}


def _one_of(ids: Iterable[str]) -> st.SearchStrategy[str | None]:
    """Draw None or one of those `ids` that a record can point to: its `cause_id` and `failure_id` have a bound."""
    return st.sampled_from([None, *(event_id for event_id in ids if _can_be_named(event_id))])


def _can_be_named(event_id: str) -> bool:
    return len(event_id) <= limits.ID_LENGTH and not any(mark in event_id for mark in _SURROGATES)


@st.composite
def links(draw: st.DrawFn) -> dict[str, str | None]:
    """Draw ids with the id of each one's cause, broken ones too: a cause may be missing, and causes may go round."""
    ids = draw(st.lists(st.sampled_from(string.ascii_lowercase), max_size=8, unique=True))
    return {event_id: draw(st.sampled_from([None, "missing", *ids])) for event_id in ids}


@st.composite
def failure_reports(
    draw: st.DrawFn, *, min_size: int = 0, max_size: int = 6, wire: bool = True, surrogates: bool = False
) -> FailureReport:
    """Draw a report: a forest of causes, with or without a failure of its own, complete or not."""
    causes = draw(forests(min_size=min_size, max_size=max_size, wire=wire, surrogates=surrogates))
    events = {
        event_id: draw(failure_events(event_id=event_id, cause_id=cause_id, wire=wire, surrogates=surrogates))
        for event_id, cause_id in causes.items()
    }
    return FailureReport(events=events, failure_id=draw(_one_of(causes)), omitted=draw(st.booleans()))


@st.composite
def report_pairs(draw: st.DrawFn) -> tuple[FailureReport, FailureReport]:
    """Draw two reports that may share events, as those of two replies that forward the same failure.

    Each is what one observer knows of a common forest: some of the events with all their causes, and each event as
    that observer tells it.
    """
    causes = draw(forests(max_size=8))
    return draw(_views(causes)), draw(_views(causes))


@st.composite
def _views(draw: st.DrawFn, causes: Mapping[str, str | None]) -> FailureReport:
    known: dict[str, FailureEvent] = {}
    for seen in draw(st.lists(st.sampled_from(sorted(causes)), unique=True)) if causes else []:
        at: str | None = seen
        while at is not None and at not in known:
            known[at] = draw(plain_events(event_id=at, cause_id=causes[at]))
            at = causes[at]
    return FailureReport(events=known, failure_id=draw(_one_of(known)), omitted=draw(st.booleans()))


def plain_events(*, event_id: str, cause_id: str | None = None) -> st.SearchStrategy[FailureEvent]:
    """Draw an event with only a kind and a reason of its own, for tests about how events hang together."""
    return st.builds(
        FailureEvent,
        event_id=st.just(event_id),
        boundary=st.just(FailureBoundary.AGENT),
        failure_kind=st.sampled_from(sorted(kinds.FAILURE_KINDS)),
        failure_reason=st.text(string.ascii_lowercase, max_size=8),
        cause_id=st.just(cause_id),
    )


def episode_failures(*, wire: bool = True) -> st.SearchStrategy[EpisodeFailure]:
    """Draw the failure of an episode, with kind and stage known or not; `wire` as in `event_ids`."""
    return st.builds(
        EpisodeFailure,
        failure_reason=texts(limits.REASON_LENGTH),
        terminal=st.booleans(),
        failure_kind=st.none() | failure_kinds(wire=wire),
        stage=st.none() | st.sampled_from(FailureStage),
    )


RECORDS = {
    SandboxFailureDetails: sandbox_details(),
    ModelFailureDetails: model_details(),
    SdkErrorDetails: sdk_error_details(),
    FailureEvent: failure_events(wire=False),
    FailureReport: failure_reports(wire=False),
    EpisodeFailure: episode_failures(wire=False),
}
"""Every record, with what draws all legal ones of it."""


def chain_of(length: int) -> FailureReport:
    """Return a report whose own failure has `length - 1` causes, one behind the other; the root is `e0`."""
    ids = [f"e{index}" for index in range(length)]
    return FailureReport(
        events={
            event_id: FailureEvent(
                event_id=event_id, boundary=FailureBoundary.AGENT, failure_kind=kinds.AGENT_RUN_ERROR, cause_id=cause_id
            )
            for cause_id, event_id in itertools.pairwise([None, *ids])
            if event_id is not None
        },
        failure_id=ids[-1] if ids else None,
    )


def chains(*, min_size: int = 1, max_size: int = 2_000) -> st.SearchStrategy[FailureReport]:
    """Draw a report that is one chain of causes."""
    return st.integers(min_size, max_size).map(chain_of)


# Small pools, so that spans and events often point to each other, to themselves and to what is missing.
_SPAN_NUMBERS = st.integers(1, 8)
_EVENT_NAMES = st.sampled_from("abcdefg")


def stored_events() -> st.SearchStrategy[EventRecord]:
    """Draw span events that tell of a failure, local or relayed; causes may be missing and go round."""
    return st.builds(
        spans.told,
        st.builds(
            spans.failure, _EVENT_NAMES, st.none() | _EVENT_NAMES, reason=st.text(string.ascii_lowercase, max_size=4)
        ),
        origin=st.sampled_from([semconv.ORIGIN_LOCAL, semconv.ORIGIN_REMOTE]),
        late=st.booleans(),
        at=st.integers(0, 3),
    )


def span_layouts() -> st.SearchStrategy[list[list[list[list[int]]]]]:
    """Return lines of resources of scopes of spans, which are the numbers of their traces."""
    scopes = st.lists(st.integers(0, 3), max_size=5)
    return st.lists(st.lists(st.lists(scopes, max_size=3), min_size=1, max_size=3), min_size=1, max_size=3)


def stored_spans() -> st.SearchStrategy[list[SpanRecord]]:
    """Draw distinct spans of two traces; parents may be missing and go round, and rollouts lie anyhow."""
    one = st.builds(
        lambda number, parent, events, **said: spans.span(number, parent, *events, **said),
        _SPAN_NUMBERS,
        st.none() | _SPAN_NUMBERS,
        st.lists(stored_events(), max_size=3),
        kind=st.sampled_from(SpanKind),
        own=st.none() | _EVENT_NAMES,
        rollout=st.sampled_from([None, None, "r1", "r2"]),
        trace=st.sampled_from([spans.TRACE, "1" * 32]),
        end=st.integers(0, 3),
        dropped=st.sampled_from([0, 0, 0, 1]),
        status=st.sampled_from([SpanStatus.UNSET, SpanStatus.UNSET, SpanStatus.ERROR]),
    )
    return st.lists(one, max_size=8, unique_by=lambda span: (span.trace_id, span.span_id))


@st.composite
def call_trees(draw: st.DrawFn) -> spans.Call:
    """Draw a request with all beneath it: failures, recovered or not, late ones, and replies that get lost."""
    numbers, names = itertools.count(1), itertools.count(1)

    def observed(known: Mapping[str, FailureEvent]) -> FailureEvent:
        cause = draw(st.none() | st.sampled_from(sorted(known))) if known else None
        return spans.failure(f"e{next(names)}", cause, reason=draw(st.text(string.ascii_lowercase, max_size=40)))

    def request(depth: int) -> spans.Call:
        call = spans.Call(next(numbers), header_reason=draw(st.integers(0, 40)))
        known: dict[str, FailureEvent] = {}
        for calls_on in draw(st.lists(st.booleans(), max_size=3)):
            if calls_on and depth:
                callee, replied = request(depth - 1), draw(st.booleans())
                call.calls.append((callee, replied))
                known |= callee.sent().events if replied else {}
            else:
                call.local.append(observed(known))
                known[call.local[-1].event_id] = call.local[-1]
        call.own = draw(st.none() | st.sampled_from(sorted(known))) if known else None
        call.late = [observed(known) for _ in range(draw(st.integers(0, 1)))]
        return call

    return request(3)


@functools.cache
def server_trees() -> st.SearchStrategy[calltrees.Server]:
    """Draw a request to a server with all that it calls: what fails there, how it ends, and replies that get lost."""
    raises = st.builds(
        calltrees.Raise,
        how=st.sampled_from(["plain", "chain", "implicit", "group"]),
        kind=st.sampled_from([*sorted(kinds.FAILURE_KINDS), "flaky:tool_error", "unheard_of"]),
        reason=st.text(max_size=40) | st.just("深" * 300),
    )

    def servers(steps: st.SearchStrategy[calltrees.Raise | calltrees.Call]) -> st.SearchStrategy[calltrees.Server]:
        return st.builds(
            calltrees.Server,
            boundary=st.sampled_from(FailureBoundary),
            steps=st.lists(steps, max_size=3),
            outcome=st.sampled_from(calltrees.OUTCOMES),
            after=st.integers(0, 2),
        )

    def callers(children: st.SearchStrategy[calltrees.Server]) -> st.SearchStrategy[calltrees.Server]:
        calls = st.lists(st.tuples(children, st.booleans()), min_size=1, max_size=3).flatmap(
            lambda pairs: st.builds(
                calltrees.Call,
                attempts=st.just([server for server, _ in pairs]),
                lost=st.just([lost for _, lost in pairs]),
                raise_on_failure=st.booleans(),
            )
        )
        return servers(raises | calls)

    return st.recursive(servers(raises), callers, max_leaves=6)


def json_values() -> st.SearchStrategy[object]:
    """Draw anything that JSON can hold."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    )


def attribute_values() -> st.SearchStrategy[object]:
    """Draw what OpenTelemetry takes as an attribute's value, text that is no Unicode too."""
    text = texts(20, surrogates=True)
    scalars = st.one_of(
        text, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=8)
    )
    lists = st.one_of(
        [st.lists(one, max_size=3) for one in (text, st.booleans(), st.integers(-9, 9), st.floats(-1, 1))]
    )
    return st.none() | scalars | lists | st.dictionaries(st.text(max_size=4), scalars, max_size=2)


@st.composite
def mangled_attributes(draw: st.DrawFn) -> dict[str, object]:
    """Draw the attributes of an event, of which some are missing, exchanged with each other, or any value."""
    attributes: dict[str, object] = dict(to_attributes(draw(failure_events()), root=draw(st.booleans())))
    for key in draw(st.lists(st.sampled_from(sorted(attributes)), unique=True)):
        attributes[key] = draw(st.sampled_from(sorted(attributes.values(), key=repr)) | attribute_values())
    for key in draw(st.lists(st.sampled_from(sorted(attributes)), max_size=2)):
        attributes.pop(key, None)
    return attributes


@st.composite
def chunkings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Draw a way to cut `data` into chunks, empty ones included, as a network might."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in itertools.pairwise([0, *cuts, len(data)])]


def stream_parts(comments: Iterable[bytes]) -> st.SearchStrategy[list[bytes]]:
    """Draw what an event stream is made of: events, lines that break off or look nearly like ours, and `comments`."""
    near = semconv.STREAM_COMMENT_PREFIX.encode()
    others = (b"data: {}\n\n", b"data: {", b": ping\n\n", b"\n", b"\r\n", b"x", near, near + b"1.x", b"\n" + near[:-1])
    return st.lists(st.sampled_from((*others, *comments)), max_size=12)


@st.composite
def mangled_trees(draw: st.DrawFn) -> object:
    """Draw the JSON object of a report in which members are missing, renamed, or hold any JSON."""
    tree: object = to_tree(draw(failure_reports(max_size=3)))
    for _ in range(draw(st.integers(0, 4))):
        tree = draw(_mangled(tree))
    return tree


@st.composite
def _mangled(draw: st.DrawFn, tree: object) -> object:
    if not isinstance(tree, dict) or not tree or draw(st.integers(0, 3)) == 0:
        return draw(json_values())
    name = draw(st.sampled_from(sorted(tree)))
    changed = dict(tree)
    value = changed.pop(name)
    if draw(st.booleans()):
        changed[draw(st.sampled_from([name, name, name, "details", "events", "cause_id", "new"]))] = draw(
            _mangled(value)
        )
    return changed


def not_quite_headers() -> st.SearchStrategy[str | bytes]:
    """Draw text and bytes that look like a header value more or less."""
    payloads = st.binary(max_size=40).map(lambda body: base64.urlsafe_b64encode(body).decode().rstrip("="))
    values = st.builds("{}.{}".format, st.sampled_from(["1", "0", "2", "01", "1.1", ""]), payloads)
    return texts(40, surrogates=True) | st.binary(max_size=40) | values


@st.composite
def exceptions(draw: st.DrawFn) -> BaseException:
    """Draw an exception with causes and members of any sort: failures, others, groups of both; they may go round."""
    made: list[BaseException] = []
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(["failure", "other", "group"])):
            case "failure":
                kind = draw(st.sampled_from(sorted(kinds.FAILURE_KINDS)))
                made.append(FailureError(kind, boundary=draw(st.sampled_from(FailureBoundary))))
            case "group" if made:
                made.append(BaseExceptionGroup("group", draw(st.lists(st.sampled_from(made), min_size=1, max_size=4))))
            case _:
                made.append(draw(st.sampled_from([ValueError, KeyError, TimeoutError, ConnectionResetError]))("text"))
    for error in made:
        error.__cause__ = draw(st.none() | st.sampled_from(made))
    return made[-1]


def gym_rows() -> st.SearchStrategy[dict[str, object]]:
    """Draw saved rows of rollouts: any keys and JSON values, those that NeMo Gym gives a meaning to among them."""
    meant = ("reward", "response", "failure_kind", "failure_reason", "_ng_task_index", "_ng_failure_class", "failure")
    return st.dictionaries(st.sampled_from(meant) | st.text(max_size=8), json_values(), max_size=6)


def mangled_gym_rows() -> st.SearchStrategy[dict[str, object]]:
    """Draw rows whose keys of ours hold any JSON, or a report of which some is missing or exchanged."""
    keys = st.fixed_dictionaries(
        {},
        optional={
            semconv.ROW_FAILURE_EVENTS: mangled_trees() | json_values(),
            semconv.ROW_FAILURE_ID: json_values(),
            semconv.ROW_FAILURE_OMITTED: json_values(),
            semconv.ROW_FAILURE_TRACE_ID: json_values(),
        },
    )
    return st.builds(lambda row, ours: row | ours, gym_rows(), keys)
