"""Asking a Jaeger by gRPC for the traces that tell of failures."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import read_reports
from gym_failures.reading.sources.jaeger_grpc import JaegerGrpc
from gym_failures.reading.sources.jaeger_search import JaegerError
from tests import jaeger
from tests.grpc.peer import Request, listening, served, trace

END = 1_000_000
"""In nanoseconds after the epoch; nothing in these tests starts later."""


def search(store, *, most=10, seconds=30.0, services=("agent",), until=END, **said):
    """Return what is found from the epoch on."""
    return JaegerGrpc(store.url, most=most, seconds=seconds).failing(services, since_ns=0, until_ns=until, **said)


def found(store, **said):
    """Return the numbers of the traces that were found, and whether some may be missing."""
    answer = search(store, **said)
    return sorted(int(report.trace_id, 16) for report in read_reports(answer)), answer.full


def test_a_full_range_is_asked_for_in_halves():
    """Of many more traces than one answer holds, all are found, each once."""
    with served(*(trace(n, event_id=f"f{n}", start=n * 1_000) for n in range(1, 501))) as store:
        assert found(store) == ([*range(1, 501)], False)


@pytest.mark.parametrize("end_belongs", [True, False])
@settings(max_examples=15)
@given(starts=st.lists(st.integers(1, END - 1), min_size=1, max_size=30, unique_by=lambda start: start // 2_000))
def test_no_trace_is_lost_between_two_ranges(starts, end_belongs):
    """Where stores keep nanoseconds, and whether a range holds its end or not, each trace is found."""
    traces = [trace(n, event_id=f"f{n}", start=start) for n, start in enumerate(starts, 1)]
    with served(*traces) as store:
        store.end_belongs = end_belongs
        assert found(store, most=3) == ([*range(1, len(starts) + 1)], False)


def test_a_crowded_microsecond_is_said():
    """Where more traces began within a microsecond than one answer holds, that is said."""
    with served(*(trace(n, event_id=f"f{n}", start=5_000) for n in range(1, 5))) as store:
        assert found(store, most=3) == ([1, 2, 3], True)


def test_nothing_was_before_the_epoch():
    """A period before the epoch, for which the API has no numbers, is searched and has no traces."""
    with served(trace(900_000)) as store:
        found_then = JaegerGrpc(store.url).failing(["agent"], since_ns=-2 * END, until_ns=-END)
    assert not [*read_reports(found_then)]


def test_services_times_and_attributes_are_asked_for():
    """A search is for the services, the times and the attributes that are given."""
    traces = (trace(1), trace(2, service="model"), trace(3, kind="shutdown"), trace(900_000, service="model"))
    with served(*traces) as store:
        assert JaegerGrpc(store.url).services() == ["agent", "model"]
        assert found(store, services=["model"])[0] == [2, 900_000]
        assert found(store, services=["agent", "model"], until=100_000)[0] == [1, 2, 3]
        assert found(store, tags={"failure.kind": "shutdown"})[0] == [3]


@given(st.text(), st.integers(0, 2**53), st.integers(0, 2**53), st.dictionaries(st.text(), st.text(), max_size=3))
def test_a_request_is_one_that_jaeger_reads(service, start, end, tags):
    """Protobuf reads out of a request what is asked for, by the schema that Jaeger publishes."""
    from gym_failures.reading.sources.jaeger_grpc import _find_traces  # noqa: PLC0415 - for this test only

    query = Request.FromString(_find_traces(service, start, end, tags, 200)).query
    assert (query.service_name, dict(query.attributes), query.search_depth) == (service, tags, 200)
    assert query.start_time_min.ToMicroseconds() == start
    assert query.start_time_max.ToMicroseconds() == end
    assert query.raw_traces


def test_what_no_message_can_hold_is_asked_for_all_the_same():
    """A tag out of a command line need not be text; what cannot be in a message is not found, and nothing breaks."""
    with served(trace(1)) as store:
        assert found(store, tags={"failure.kind": "\udcff"}) == ([], False)


def test_a_trace_in_pieces_is_one():
    """A trace that comes in several messages counts once, and is kept whole if any of them tells of a failure."""
    first, second = trace(1, event_id=None), trace(1)
    second.resource_spans[0].scope_spans[0].spans[0].span_id = b"12345678"
    pieces = [first, second, trace(2, event_id=None), trace(3, event_id="g")]
    with served(find_traces=lambda *_: iter([piece.SerializeToString() for piece in pieces])) as store:
        answer = read_reports(search(store, most=4))
    assert [report.trace_id[-1] for report in answer] == ["1", "3"]
    assert answer.spans == 3


def test_an_answer_of_nothing():
    """Neither an empty answer nor an empty message in one is anything."""
    with served(find_traces=lambda *_: iter([b"", b""])) as store:
        assert found(store) == ([], False)


def test_what_was_found_is_named_by_its_url():
    """A skip in what Jaeger answered names its URL."""
    with served(trace(1)) as store:
        url = store.url
        store.url += "/"
        assert search(store).name == url


def fail(_request, context):
    """Answer with an error."""
    context.abort(grpc.StatusCode.INTERNAL, "the disk is gone")


def break_off(*_):
    """Answer with a trace, and then with an error."""
    yield trace(1).SerializeToString()
    fail(*_)


WRONG = {
    "an error": (fail, r"/FindTraces answered INTERNAL: the disk is gone$"),
    "an error in the middle": (break_off, "answered INTERNAL: the disk is gone$"),
    "a fault in the middle": (lambda *_: (1 / n for n in (0,)), "answered UNKNOWN: "),
    "bytes of no message": (lambda *_: iter([b"\xff\xff"]), "^grpc://127.0.0.1:[0-9]+ did not answer like Jaeger$"),
    "a page": (lambda *_: iter([b"<html>"]), "did not answer like Jaeger$"),
}


@pytest.mark.parametrize(("answer", "said"), WRONG.values(), ids=WRONG)
def test_what_does_not_answer_like_jaeger(answer, said, caplog):
    """Whatever does not answer as Jaeger does is one error that says what was asked, and no other word."""
    with served(find_traces=answer) as store, pytest.raises(JaegerError, match=said):
        search(store)
    assert [record for record in caplog.records if not record.name.startswith("grpc._server")] == []


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40) | st.integers(0, 200).map(lambda end: trace(7).SerializeToString()[:end])))
def test_no_answer_does_more_than_be_refused(messages):
    """Whatever messages are answered with, they are spans, or the answer is refused, and nothing else is raised."""
    with served(find_traces=lambda *_: iter(messages)) as store:
        try:
            answer = search(store, until=1_000)
        except JaegerError as error:
            assert str(error) == f"{store.url} did not answer like Jaeger"  # noqa: PT017 - not each is refused
        else:
            assert len(read_reports(answer)) <= len(messages)


def test_names_that_are_none():
    """Services that are no text are no answer of Jaeger's."""
    with served(get_services=lambda *_: b"\x0a\x01\xff") as store, pytest.raises(JaegerError, match=r"like Jaeger$"):
        JaegerGrpc(store.url).services()


def test_a_server_of_something_else():
    """A server without Jaeger's service is one error that says so."""
    said = "QueryService/GetServices answered UNIMPLEMENTED: "
    with (
        ThreadPoolExecutor(1) as threads,
        listening(threads) as (_, url),
        pytest.raises(JaegerError, match=said),
    ):
        JaegerGrpc(url).services()


def test_a_server_of_http():
    """A Jaeger's other port is one error that says which protocol is not spoken there."""
    with jaeger.served() as store, pytest.raises(JaegerError, match=r"GetServices did not answer: .*HTTP/2"):
        JaegerGrpc(store.url.replace("http", "grpc")).services()


def test_tls_where_there_is_none():
    """A server that speaks no TLS, asked by it, is one error that says so."""
    with served() as store, pytest.raises(JaegerError, match=r"GetServices did not answer: .*WRONG_VERSION_NUMBER"):
        JaegerGrpc(store.url.replace("grpc", "grpcs")).services()


def test_an_answer_that_does_not_come_is_not_waited_for():
    """A server that is silent is left after the time for one answer, which is said."""
    silence = threading.Event()

    def say_nothing(*_):
        silence.wait()
        yield b""

    with served(find_traces=say_nothing) as store:
        try:
            with pytest.raises(JaegerError, match="FindTraces did not answer: "):
                search(store, seconds=0.1)
        finally:
            silence.set()


def test_an_answer_without_end_ends():
    """An answer that never ends is read no longer than one may take."""
    with (
        served(find_traces=lambda *_: endless()) as store,
        pytest.raises(JaegerError, match="FindTraces did not answer"),
    ):
        search(store, seconds=0.5, until=1_000)


def test_of_a_full_range_no_more_is_read_than_tells_so():
    """Where a range has more than an answer may hold, the rest of the answer is left, and the halves are asked for."""
    asked = []

    def longest_for_ever(request, _context):
        query = Request.FromString(request).query
        asked.append((query.start_time_min.ToMicroseconds(), query.start_time_max.ToMicroseconds()))
        return endless() if asked[-1] == (0, 2) else iter([trace(5).SerializeToString()])

    with served(find_traces=longest_for_ever) as store:
        assert found(store, until=2_000) == ([5], False)
    assert sorted(asked) == [(0, 1), (0, 2), (1, 2)]


def endless():
    """Yield traces in which nothing failed."""
    return (trace(n, event_id=None).SerializeToString() for n in count(1))


def test_a_trace_without_end_is_refused(monkeypatch):
    """A trace is taken up to the size of what a file's record may be; more is an error that names it."""
    monkeypatch.setattr(limits, "STORED_RECORD", 2**20)

    def of_one(*_):
        while True:
            yield trace(7).SerializeToString()

    said = r"^grpc://.* has a trace of more than 1 MiB: 0{31}7$"
    with served(find_traces=of_one) as store, pytest.raises(JaegerError, match=said):
        search(store)


def test_a_message_that_is_too_large_is_refused(monkeypatch):
    """A message is taken up to that size, too."""
    monkeypatch.setattr(limits, "STORED_RECORD", 100)
    said = r"FindTraces answered RESOURCE_EXHAUSTED: .*larger than max"
    with served(trace(1)) as store, pytest.raises(JaegerError, match=said):
        search(store)


URLS = {
    "nobody there": ("grpc://127.0.0.1:1", r"GetServices did not answer: .*[Rr]efused"),
    "no such host": ("grpc://nowhere.invalid:1", "GetServices did not answer: .*nowhere.invalid"),
    "nobody there by TLS": ("grpcs://[::1]:1", "GetServices did not answer: "),
    "a password": ("grpc://me:secret@127.0.0.1:1", "^a URL with a user is not taken$"),
    "no port": ("grpc://localhost", "is no URL like grpc://localhost:16685$"),
    "no host": ("grpc://", "is no URL like"),
    "no such port": ("grpc://localhost:99999", "is no URL like"),
    "a path": ("grpc://localhost:16685/jaeger", "is no URL like"),
    "another scheme": ("http://localhost:16685", "is no URL like"),
    "a space": ("grpc://a b:1", "is no URL like"),
    "no character": ("grpc://\udcff:1", "is no URL like"),
    "a NUL": ("grpc://\0:1", "is no URL like"),
    "no brackets": ("grpc://[", "is no URL: "),
}


@pytest.mark.parametrize(("url", "said"), URLS.values(), ids=URLS)
def test_where_no_jaeger_can_be(url, said):
    """A URL that is none, or where nobody is, is one error that says so and holds no password."""
    with pytest.raises(JaegerError, match=said):
        JaegerGrpc(url).services()


def test_hosts_are_names_and_nothing_else(tmp_path, monkeypatch):
    """A host that gRPC would take for another kind of address is a host, as in any URL."""
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        server.add_insecure_port("unix:1")
        server.start()
        with pytest.raises(JaegerError, match="did not answer: "):
            JaegerGrpc("grpc://unix:1").services()
        server.stop(0).wait()
