"""What spans say of exceptions where tracing was switched on by us, and that it costs the program nothing."""

import asyncio
import json
import sys
from inspect import iscoroutinefunction

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode, use_span
from pydantic import TypeAdapter, ValidationError

from gym_failures import limits
from gym_failures.config import Config
from gym_failures.enabling.reticence import Reticence, ReticentProvider
from tests.run.programs import PROGRAMS, files, hooked, ran

FAILING = PROGRAMS / "failing.py"
SECRET = "abcdef0123456789" * 2
SERVER = {"GYM_FAILURES_BOUNDARY": "model"}


class WordlessError(Exception):
    """An error without a text."""

    def __str__(self):
        """Break."""
        raise AttributeError("request_info")


@pytest.fixture
def spans():
    """Return a function that starts a reticent span, and one that ends it and returns it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    def begun(config=None, **settings):
        return Reticence(config or Config()).apply(tracer.start_span("span", **settings))

    def ended(span):
        span.end()
        return exporter.get_finished_spans()[-1]

    return begun, ended


@pytest.mark.parametrize(
    "surroundings", [SERVER, {}, {"PROVIDER": "own", **SERVER}], ids=["ours", "no boundary", "own"]
)
@pytest.mark.parametrize("text", [[], ["down"]], ids=["without text", "with text"])
def test_exceptions_leave_as_they_were(tmp_path, text, surroundings):
    """An exception whose `str()` raises leaves apps, streams, calls and spans as itself (ray#44878)."""
    env = hooked(tmp_path, **surroundings)
    traced = ran(sys.executable, FAILING, *text, env=env).told()
    plain = ran(sys.executable, FAILING, *text, env={**env, "PYTHONPATH": ""}).told()
    assert traced.pop("spans", []) or files(tmp_path)
    plain.pop("spans", None)
    assert traced == plain
    assert plain["/streamed"] == [200, "data: 1", "FailedError"]


def spans_of(lines):
    """Return the spans in lines of OTLP JSON."""
    parts = [part for line in lines for part in json.loads(line)["resourceSpans"]]
    return [span for part in parts for scope in part["scopeSpans"] for span in scope["spans"]]


def test_nothing_of_an_exception_bypasses_the_scrubber(tmp_path):
    """No traceback is formatted and no secret written by what we switch on (opentelemetry-specification#1532)."""
    ran(sys.executable, FAILING, f"denied: Bearer {SECRET}", env=hooked(tmp_path, **SERVER)).told()
    (file,) = files(tmp_path)
    written = file.read_text()
    assert SECRET not in written
    assert "exception.stacktrace" not in written
    assert "Traceback" not in written
    failing = {span["name"]: span for span in spans_of(written.splitlines())}
    for name in ("GET /raised", "GET /streamed", "GET", "in_a_span", "in_a_block", "in_use"):
        assert failing[name]["status"]["code"] == 2, name
        said = [event for event in failing[name]["events"] if event["name"] == "exception"]
        texts = {one["key"]: one["value"]["stringValue"] for event in said for one in event["attributes"]}
        assert texts["exception.message"] == "denied: Bearer ***", name


def test_exceptions_without_text_are_told_of(tmp_path):
    """Spans that such an exception leaves are errors, and name its type (ray#44878)."""
    ran(sys.executable, FAILING, env=hooked(tmp_path, **SERVER)).told()
    (file,) = files(tmp_path)
    failing = {span["name"]: span for span in spans_of(file.read_text().splitlines())}
    for name in ("GET /raised", "GET /streamed", "GET", "in_a_span", "in_a_block", "in_use"):
        assert failing[name]["status"]["code"] == 2, name
        assert '{"key": "exception.type", "value": {"stringValue": "__main__.FailedError"}}' in json.dumps(
            failing[name]
        )


def test_nor_on_spans_of_a_provider_of_the_program(tmp_path):
    """Where the program has a provider, the same holds for what we switch on, and its own spans stay as they were."""
    env = hooked(tmp_path, PROVIDER="own", **SERVER)
    told = ran(sys.executable, FAILING, f"denied: Bearer {SECRET}", env=env).told()
    written = {span["name"]: json.dumps(span) for span in told["spans"]}
    assert {name for name, text in written.items() if SECRET in text} == {"in_a_span", "in_a_block", "in_use"}
    assert {"GET", "GET /raised", "GET /streamed"} <= written.keys()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("Bearer " + SECRET), "Bearer ***"),
        (ValueError("x" * 3000), "x" * 1992 + "…[+1008]"),
        (WordlessError(), "<no text: AttributeError in WordlessError.__str__>"),
        (ValueError("\ud800"), "\ufffd"),
        (ValueError(), None),
    ],
    ids=["secret", "long", "wordless", "surrogate", "empty"],
)
def test_an_exception_as_an_event(spans, error, message):
    """An event `exception` has the type, and of the text what a failure's reason would have."""
    begin, end = spans
    span = begin()
    span.record_exception(error, {"mine": 1}, timestamp=7, escaped=True)
    (event,) = end(span).events
    assert (event.name, event.timestamp) == ("exception", 7)
    name = "ValueError" if type(error) is ValueError else f"{__name__}.WordlessError"
    expected = {"exception.type": name, "exception.message": message, "exception.escaped": "True", "mine": 1}
    assert dict(event.attributes) == {key: value for key, value in expected.items() if value is not None}


def test_reasons_that_are_off(spans):
    """Where spans are to have no reasons, they have no text of an exception either."""
    begin, end = spans
    span = begin(Config(span_reasons="off"))
    span.record_exception(ValueError("x"))
    assert dict(end(span).events[0].attributes) == {"exception.type": "ValueError", "exception.escaped": "False"}


@pytest.mark.parametrize(
    ("given", "description"),
    [
        ((StatusCode.ERROR, f"Bearer {SECRET}"), "Bearer ***"),
        ((Status(StatusCode.ERROR, f"Bearer {SECRET}"),), "Bearer ***"),
        ((StatusCode.ERROR, 5), None),
        ((StatusCode.ERROR,), None),
        ((Status(StatusCode.ERROR),), None),
    ],
)
def test_a_description_of_a_status(spans, given, description):
    """A description that somebody chose is kept, without secrets."""
    begin, end = spans
    span = begin()
    span.set_status(*given)
    status = end(span).status
    assert (status.status_code, status.description) == (StatusCode.ERROR, description)


def test_a_description_that_quotes_an_exception(spans):
    """Of the exception that is handled a description says what its event does: where input was wrong, not the input."""
    begin, end = spans
    span = begin()
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("the private answer")
    try:
        raise caught.value
    except ValidationError as error:
        span.set_status(StatusCode.ERROR, f"asked in vain, {error}")
    assert end(span).status.description == "asked in vain, int_parsing at the whole"


class Nameless(type):
    """A class whose name cannot be read."""

    @property
    def __name__(cls):
        """Break."""
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=Nameless):
    """An error of such a class."""


class OddText(str):
    """A text that does not let itself be looked at."""

    __slots__ = ()

    def startswith(self, *_):
        """Break."""
        raise RuntimeError("odd")


@pytest.mark.parametrize(("error", "given"), [(NamelessError(), "down"), (ValueError(), OddText("down"))])
def test_a_description_that_cannot_be_looked_at(spans, error, given):
    """Where looking at a description fails, the program sets its status without one, and goes on."""
    begin, end = spans
    span = begin()
    try:
        raise error
    except (NamelessError, ValueError):
        span.set_status(StatusCode.ERROR, given)
    status = end(span).status
    assert (status.status_code, status.description) == (StatusCode.ERROR, None)


def test_of_a_huge_description_only_the_beginning_is_looked_at(spans):
    """A whole reply as a description costs no more than a long one, and what is cut is counted all the same."""
    begin, end = spans
    lengths = []
    span = begin(Config(scrubber=lambda text: lengths.append(len(text)) or text))
    span.set_status(StatusCode.ERROR, "x" * 100_000)
    assert end(span).status.description == "x" * 1_991 + "…[+98009]"
    assert lengths == [limits.DESCRIPTION_LENGTH]


def test_what_is_no_status(spans):
    """What is no status is left to the SDK, which takes no notice of it."""
    begin, end = spans
    span = begin()
    span.set_status("failed", "because")
    assert end(span).status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("error", [ValueError("what was asked"), WordlessError()], ids=["text", "wordless"])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize("ends", [True, False], ids=["its end", "use"])
def test_what_leaves_a_span(spans, error, recorded, status, ends):
    """An exception that leaves a span is an event and an error as OpenTelemetry was told, without a description."""
    begin, end = spans
    settings = {"record_exception": recorded, "set_status_on_exception": status}
    span = begin(**settings) if ends else begin()
    with pytest.raises(type(error)), span if ends else use_span(span, **settings):
        raise error
    read = end(span)
    assert [event.name for event in read.events] == ["exception"] * recorded
    assert read.status.status_code is (StatusCode.ERROR if status else StatusCode.UNSET)
    assert read.status.description is None


def test_everyone_else_is_told_the_truth(spans):
    """A program that handles such an exception is told that the span records, until it has ended."""
    begin, end = spans
    span = begin()
    with pytest.raises(WordlessError) as caught:
        raise WordlessError
    try:
        raise caught.value
    except WordlessError:
        assert span.is_recording()
    end(span)
    assert not span.is_recording()


def test_a_span_around_a_coroutine_lasts_as_long_as_that():
    """As a decorator of a coroutine function a span covers what its coroutines do (opentelemetry-python#3270)."""
    tracer = ReticentProvider(Reticence(Config())).get_tracer("test")

    @tracer.start_as_current_span("span")
    async def work():
        return "done"

    assert iscoroutinefunction(work)
    assert asyncio.run(work()) == "done"


class FinalSpan(Span):
    """A span of somebody's own make whose class nothing can be made of."""

    add_event = add_link = end = get_span_context = record_exception = set_attribute = set_attributes = None
    set_status = update_name = None

    def __init_subclass__(cls):
        """Refuse."""
        raise TypeError("final")

    def is_recording(self):
        """Tell whether it records."""
        return True


@pytest.mark.parametrize("span", [INVALID_SPAN, FinalSpan()], ids=["not recording", "final"])
def test_spans_that_stay_as_they_are(span):
    """A span that records nothing, or whose class lets itself not be changed, is returned as it is."""
    before = type(span)
    assert Reticence(Config()).apply(span) is span
    assert type(span) is before


def test_a_span_is_made_reticent_once(spans):
    """A span that is reticent already, as one of the SDK that we have set up, stays as it is."""
    begin, _ = spans
    span = begin()
    before = type(span)
    assert type(Reticence(Config()).apply(span)) is before
