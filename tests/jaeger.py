"""A small server that answers searches as Jaeger's query API does: any traces of a range, up to a limit."""

import json
import urllib.parse
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.answering import answering


def trace(number, *, service="agent", event_id="f", kind="cancelled", start=None):
    """Return a trace of one server's span that failed `start` microseconds after the epoch, and from its start on."""
    start = number if start is None else start
    trace_id = f"{number:032x}"
    told = {
        "event": "gym.failure",
        "failure.origin": "local",
        "failure.boundary": "agent",
        "failure.kind": kind,
        "failure.id": event_id,
    }
    span = {
        "traceID": trace_id,
        "spanID": f"{number:016x}",
        "operationName": "POST /run",
        "references": [],
        "startTime": start,
        "duration": 1,
        "tags": [
            _tag("span.kind", "server"),
            _tag("failure.id", event_id),
            _tag("nemo.gym.rollout.id", f"r{number:02}"),
        ],
        "logs": [{"timestamp": start, "fields": [_tag(*pair) for pair in told.items()]}] if event_id else [],
        "processID": "p1",
    }
    if not event_id:
        del span["tags"][1]
    return {"traceID": trace_id, "spans": [span], "processes": {"p1": {"serviceName": service, "tags": []}}}


def _tag(key, value):
    return {"key": key, "type": "string", "value": value}


class Store:
    """The traces that a server has, and what it was asked."""

    def __init__(self, traces):
        """Hold `traces`."""
        self.traces = traces
        self.asked = []
        self.url = ""
        self.broken = None
        """Status and body of every answer instead of the right ones."""

    def answer(self, path, query):
        """Return the status and the document of one answer."""
        if self.broken is not None:
            return self.broken
        if path == "/api/services":
            return 200, json.dumps({"data": sorted({_service(one) for one in self.traces}), "errors": None})
        assert path == "/api/traces"
        self.asked.append(query)
        found = [one for one in self.traces if _matches(one, query)]
        return 200, json.dumps({"data": found[: int(query["limit"])], "total": 0, "errors": None})


def _service(one):
    return one["processes"]["p1"]["serviceName"]


def _matches(one, query):
    (span,) = one["spans"]
    tags = {(tag["key"], tag["value"]) for tag in span["tags"]}
    tags |= {(tag["key"], tag["value"]) for log in span["logs"] for tag in log["fields"]}
    return (
        _service(one) == query["service"]
        and int(query["start"]) <= span["startTime"] <= int(query["end"])
        and set(json.loads(query.get("tags", "{}")).items()) <= tags
    )


@contextmanager
def served(*traces):
    """Serve `traces` on a free port, and give the store, whose `url` it is."""
    store = Store(traces)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            status, text = store.answer(path, dict(urllib.parse.parse_qsl(query)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    with answering(Handler) as store.url:
        yield store
