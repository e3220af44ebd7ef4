"""The mark on an exception goes with it wherever the exception goes, and is never in the way."""

import copy
import os
import pickle
import subprocess
import sys

import pytest

from gym_failures.errors import FailureError, report_for
from gym_failures.kinds import FailureBoundary
from gym_failures.marks import Mark, mark_of, set_mark
from gym_failures.records import FailureEvent, SandboxFailureDetails
from gym_failures.semconv import EXCEPTION_MARK

EVENT = FailureEvent(event_id="e\ud800", failure_kind="odd\ud800", boundary=FailureBoundary.MODEL, failure_reason="深")


def marked():
    """Return an exception with a mark."""
    error = ValueError("x")
    set_mark(error, Mark((EVENT,), "some log"))
    return error


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_a_mark_travels_with_its_exception(way):
    """Copying and pickling keep the events and who recorded them, whatever text is in them."""
    found = mark_of(way(marked()))
    assert found is not None
    assert (found.events, found.owner) == ((EVENT,), "some log")


def test_a_marked_exception_unpickles_where_this_package_is_not():
    """A process without gym-failures unpickles a marked exception of any library, as it would without the mark."""
    program = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)), 'gym_failures' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=pickle.dumps(marked()),
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.stdout.decode().split() == ["ValueError('x')", "False"]


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"events":[],"owner":null}', '{"events":[{}],"owner":1}', "[" * 9999]
)
def test_any_other_text_in_its_place_is_no_mark(text):
    """Text that no mark was pickled as is ignored."""
    error = ValueError("x")
    error.__dict__[EXCEPTION_MARK] = text
    assert mark_of(error) is None


def test_an_exception_gets_through_pickle_whatever_its_mark_holds():
    """A mark that has no text, as with a number too long for Python to write, never stops its exception."""
    error = FailureError("cancelled", boundary="sandbox", details=SandboxFailureDetails(exit_code=10**5_000))
    report_for(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert again.details == error.details
    assert mark_of(again) is None
