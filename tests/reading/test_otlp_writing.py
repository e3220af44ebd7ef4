"""Span records to OTLP JSON, and back."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given

from gym_failures.reading import SpanLink, Tally
from gym_failures.reading.otlp_json import parse
from gym_failures.reading.otlp_writing import as_otlp
from gym_failures.reading.spans import read_spans
from tests.spans import failure, server, told
from tests.strategies import stored_spans

DATA = Path(__file__).parents[1] / "data"


@given(stored_spans())
def test_what_is_written_is_read_back(spans):
    """Written and read again, spans are what they were."""
    found = parse(json.dumps(as_otlp(spans)))
    assert (found.spans, found.skipped) == (spans, [])


VALUES = [
    "模型\0",
    True,
    False,
    0,
    -(2**63),
    2**63 - 1,
    0.5,
    math.inf,
    -math.inf,
    b"\0\xff",
    [1, "a", [True]],
    {"a": {"b": 1}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values(value):
    """Every value that a record can have is written so that it is read back, with its type."""
    span = server(1, None, attributes={"k": value})
    (found,) = parse(json.loads(json.dumps(as_otlp([span])))).spans
    assert found.attributes == {"k": value}
    assert type(found.attributes["k"]) is type(value)


def test_a_number_without_room_is_text():
    """A whole number beyond 64 bits is text, as OTLP has no room for it; and what is no number stays none."""
    (found,) = parse(json.dumps(as_otlp([server(1, None, attributes={"k": 2**63, "n": math.nan})]))).spans
    assert found.attributes["k"] == str(2**63)
    assert math.isnan(found.attributes["n"])


def test_links_and_counts_are_kept():
    """What was dropped and what a span points to is written too."""
    span = server(1, None, told(failure("f"), dropped=2), links=[SpanLink("1" * 32, "2" * 16)], dropped=3)
    assert parse(json.dumps(as_otlp([span]))).spans == [span]


@pytest.mark.parametrize("every", [False, True])
def test_spans_of_stored_files(every):
    """The spans of failing traces are read out of all files, or with `every` all spans; each with its source."""
    sources = {str(path): path for path in sorted((DATA / "sdk").iterdir())}
    tallies = {name: Tally() for name in sources}
    found = [*read_spans(sources, tallies, every=every)]
    lines = sum(path.read_text().count("\n") for path in sources.values())
    assert sum(tally.spans for tally in tallies.values()) == lines
    assert {name for name, _ in found} == set(sources)
    healthy = lines - len(found)
    assert (healthy == 0) is every
