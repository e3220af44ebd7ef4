"""The command within the process of the test, and files for it to read."""

import io
import json
import sys
from typing import NamedTuple

import pytest

from gym_failures.cli.app import app


class Ended(NamedTuple):
    """How the command ended."""

    status: int
    output: str
    errors: str


@pytest.fixture
def command(capsys, monkeypatch):
    """Give what runs the command with arguments, and with bytes as its standard input; None closes it."""

    def run(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", None if given is None else io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as end:
            app([*map(str, arguments)], prog_name="gym-failures")
        output, errors = capsys.readouterr()
        return Ended(end.value.code or 0, output, errors)

    return run


@pytest.fixture
def write(tmp_path):
    """Give what writes spans to a file and returns its path."""

    def written(*spans, name="traces.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{as_line(span)}\n" for span in spans))
        return path

    return written


def as_line(span):
    """Return a span record as one line of OTLP JSON."""
    resource = {} if span.service is None else {"attributes": _attributes({"service.name": span.service})}
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": resource,
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": span.trace_id,
                                    "spanId": span.span_id,
                                    "parentSpanId": span.parent_id or "",
                                    "name": span.name,
                                    "kind": int(span.kind),
                                    "startTimeUnixNano": str(span.start_ns),
                                    "endTimeUnixNano": str(span.end_ns),
                                    "attributes": _attributes(span.attributes),
                                    "events": [
                                        {
                                            "name": event.name,
                                            "timeUnixNano": str(event.time_ns),
                                            "attributes": _attributes(event.attributes),
                                        }
                                        for event in span.events
                                    ],
                                    "droppedEventsCount": span.dropped_events,
                                }
                            ]
                        }
                    ],
                }
            ]
        }
    )


def _attributes(attributes):
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value):
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
