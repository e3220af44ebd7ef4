"""What `decode` makes of a header's value, and `kinds` of the vocabulary."""

import json

import pytest
from hypothesis import given

from gym_failures.header import encode_report
from gym_failures.kinds import FAILURE_KINDS, KIND_DESCRIPTIONS, FailureBoundary
from gym_failures.records import FailureReport
from tests.spans import failure
from tests.strategies import failure_reports

REFUSED = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL, reason="HTTP 401")
CALLED_OFF = failure("x", kind="cancelled")
FAILED = FailureReport(events={"m": REFUSED, "a": failure("a", "m"), "x": CALLED_OFF}, failure_id="a")
VALUE = encode_report(FAILED)

TREE = [
    "✗ a reply  provider_unavailable at model",
    "├── provider_unavailable at model  HTTP 401",
    "│   └── agent_run_error at agent",
    "└── cancelled at agent  (not linked)",
]
COPIED = {
    "the value": (VALUE,),
    "a line of a header": (f"gym-failure-report: {VALUE}",),
    "a line of a header, as curl -v has it": (f"< Gym-Failure-Report: {VALUE}\r",),
    "the comment of a stream": (f": gym-failure-report {VALUE}",),
    "values that a proxy joined": (f"{VALUE}, {VALUE}",),
    "the values of two headers": (VALUE, VALUE),
    "a value that is none beside one": ("junk", VALUE),
}


@pytest.mark.parametrize("values", COPIED.values(), ids=COPIED)
def test_a_copied_value_is_a_tree(command, values):
    """However a value was copied, its report is shown as a tree, the root cause first."""
    ended = command("decode", *values)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.splitlines() == TREE


@pytest.mark.parametrize(
    "text",
    [f"HTTP/1.1 500 No\r\nDate: a, b, c, d, e\r\nGym-Failure-Report: {VALUE}\r\n\r\n{{}}", f"{VALUE}\n", f"\n{VALUE}"],
    ids=["a reply", "a value", "a blank line"],
)
def test_standard_input(command, text):
    """A dash reads a whole reply, or values alone."""
    assert command("decode", "-", given=text.encode()).output.splitlines() == TREE


def test_a_recovered_reply(command):
    """A report without a failure of its own is of a reply that went well."""
    value = encode_report(FailureReport(events={"x": CALLED_OFF}))
    assert command("decode", value).output.splitlines() == [
        "✓ a reply  recovered from 1",
        "└── cancelled at agent  (recovered)",
    ]


@given(failure_reports())
def test_json_is_the_report(report):
    """What `--format json` prints is the report that the value carries."""
    value = encode_report(report)
    shown = FailureReport.model_validate_json(_printed("decode", "--format", "json", value))
    assert encode_report(shown) == value


def _printed(*arguments):
    """Return what the command prints, without a fixture, of which Hypothesis has only one for all examples."""
    import contextlib  # noqa: PLC0415 - for this helper only
    import io  # noqa: PLC0415 - as above

    from gym_failures.cli.app import app  # noqa: PLC0415 - as above

    with contextlib.redirect_stdout(io.StringIO()) as output, pytest.raises(SystemExit):
        app()([*arguments], prog_name="gym-failures")
    return output.getvalue()


@pytest.mark.parametrize("values", [("junk",), ("",), ("1.eJxx",), ("9.eJxx",), ("gym-failure-report:",)], ids=str)
def test_what_is_no_report_is_an_error(command, values):
    """A value that cannot be read ends the command with status 3, and is not repeated."""
    ended = command("decode", *values)
    assert (ended.status, ended.output) == (3, "")
    assert ended.errors == "gym-failures: no report can be read; is this a value of the header gym-failure-report?\n"


def test_closed_standard_input(command):
    """Where standard input is closed, a dash is wrong use."""
    assert command("decode", "-", given=None).status == 2


def test_kinds_lists_the_vocabulary(command):
    """Each registered kind stands in the list with its sentence."""
    output = command("kinds").output
    assert all(f"{kind} " in output and says in output for kind, says in KIND_DESCRIPTIONS.items())
    assert json.loads(command("kinds", "--format", "json").output) == dict(KIND_DESCRIPTIONS)


def test_kinds_that_are_asked_for(command):
    """Names and patterns choose."""
    shown = json.loads(command("kinds", "--format", "json", "judge_*", "cancelled").output)
    assert set(shown) == {"judge_failed", "judge_unparseable", "cancelled"}
    assert set(shown) < FAILURE_KINDS


def test_a_kind_that_is_not_registered(command):
    """For a kind of nobody the answer is no."""
    ended = command("kinds", "my_new_kind")
    assert (ended.status, ended.output) == (1, "")
    assert "no kind is registered" in ended.errors


def test_a_reply_in_another_encoding(command):
    """The body of a reply is passed over, whatever its encoding."""
    ended = command("decode", "-", given=f"HTTP/1.1 500 No\nGym-Failure-Report: {VALUE}\n\n".encode() + b"\xff\xfe")
    assert (ended.status, ended.errors) == (0, "")
