"""Answers of Jaeger's API of version 3, read like files."""

import gzip
import json

import pytest
from hypothesis import given

from gym_failures.reading import read_reports
from tests.spans import failure, server, told
from tests.stored import as_line
from tests.strategies import json_values

LINES = [
    as_line(server(1, None, told(failure(f"f{number}")), own=f"f{number}", trace=f"{number:032x}"))
    for number in (1, 2, 3)
]
RESULTS = [{"result": json.loads(line)} for line in LINES]

ANSWERS = {
    "results, one a line": "\n".join(map(json.dumps, RESULTS)),
    "results without a space between": "".join(map(json.dumps, RESULTS)),
    "results, indented": "\n".join(json.dumps(result, indent=4) for result in RESULTS),
    "one result": json.dumps({"result": {"resourceSpans": [r["result"]["resourceSpans"][0] for r in RESULTS]}}),
}


@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())], ids=["plain", "gzip"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers(answer, pack):
    """An answer gives the reports of the spans in it, in whatever pieces it came."""
    found = read_reports(pack(answer))
    assert (found, found.spans, found.skips) == (read_reports("\n".join(LINES)), 3, 0)


def test_an_answer_that_was_cut_gives_its_whole_results():
    """Of an answer that broke off the results before the break are read, and that it broke off is told."""
    found = read_reports(ANSWERS["results, one a line"][:-50])
    assert len(found) >= 2
    assert [skip.line for skip in found.skipped] == [3]


@pytest.mark.parametrize("answer", ['{"result":null}', '{"result":5}', '{"result":{"error":{}}}'])
def test_an_answer_without_spans_is_told_of(answer):
    """An answer that is none has no spans, and is no empty result."""
    found = read_reports(answer)
    assert (found.spans, found.skips) == (0, 1)


@given(json_values())
def test_no_answer_makes_reading_raise(value):
    """Whatever stands in a result, the results beside it are read."""
    text = "\n".join([json.dumps(RESULTS[0]), json.dumps({"result": value}), json.dumps(RESULTS[1])])
    assert len(read_reports(text)) >= 2
