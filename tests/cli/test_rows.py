"""What `rows` puts into saved rows."""

import gzip
import json
from dataclasses import replace

import pytest

from gym_failures import limits
from gym_failures.records import FailureReport
from gym_failures.rows import read_row, with_failures
from tests.spans import failure, server, told
from tests.stored import as_line

FAILED = server(1, None, told(failure("m", kind="cancelled")), told(failure("a", "m"), at=1), own="a", rollout="3-1")
RECOVERED = server(2, None, told(failure("x")), rollout="r2", trace="2" * 32)
OTHER = server(3, None, told(failure("y")), own="y", rollout="r9", trace="9" * 32)

FINE = b'{ "reward":1.0,  "_ng_task_index": 7, "_ng_rollout_index": 0, "text": "\xe6\xa8\xa1" }'
ROW = {"reward": 0.0, "_ng_task_index": 3, "_ng_rollout_index": 1, "nan": float("nan"), "text": "模"}
NAMED = {"reward": 1.0, "_ng_rollout_id": "r2"}


@pytest.fixture
def saved(tmp_path):
    """Give what writes lines to a file of rows and returns its path."""

    def write(*lines):
        path = tmp_path / "rollouts.jsonl"
        path.write_bytes(
            b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
        )
        return path

    return write


def test_failures_stand_in_the_rows_of_their_rollouts(command, write, saved):
    """A row gets what its rollout's trace tells, own failure, trace and all; other rows are printed as they are."""
    ended = command("rows", saved(FINE, ROW, NAMED), write(FAILED, RECOVERED, OTHER))
    assert ended.status == 0
    fine, failed, recovered = ended.output.splitlines()
    assert fine.encode() == FINE
    report, trace_id = read_row(json.loads(failed))
    assert (report.failure_id, set(report.events), trace_id) == ("a", {"m", "a"}, FAILED.trace_id)
    report, trace_id = read_row(json.loads(recovered))
    assert (report.failure_id, set(report.events), trace_id) == (None, {"x"}, RECOVERED.trace_id)
    assert ended.errors == "rows with failures: 2; rollouts of the traces without a row: 1\n"


def test_nothing_else_in_a_row_changes(command, write, saved):
    """Without our keys, a row that was told of is what it was, in its order."""
    (line,) = command("rows", saved(ROW), write(FAILED)).output.splitlines()
    kept = {key: value for key, value in json.loads(line).items() if not key.startswith("_ng_failure")}
    assert json.dumps(kept) == json.dumps(ROW)


def test_doing_it_twice_changes_nothing(command, write, saved):
    """Rows that have their failures already come out the same."""
    first = command("rows", saved(ROW, NAMED), write(FAILED, RECOVERED)).output
    assert command("rows", saved(*first.encode().splitlines()), write(FAILED, RECOVERED)).output == first


def test_rows_are_read_back(command, write, saved):
    """What was put into rows is shown from them as from the traces."""
    told_rows = saved(*command("rows", saved(ROW), write(FAILED)).output.encode().splitlines())
    shown = command("show", told_rows)
    assert "rollout 3-1  cancelled at agent" in shown.output
    assert "agent_run_error at agent" in shown.output


def test_join_is_another_name(command, write, saved, monkeypatch, tmp_path):
    """`rows join ROWS FILE...` does the same, and a file of that name is one."""
    rows, traces = saved(ROW), write(FAILED)
    monkeypatch.chdir(tmp_path)
    assert command("rows", "join", rows, traces) == command("rows", rows, traces)
    rows.rename("join")
    assert "rows with failures: 1;" in command("rows", "join", traces).errors


def test_lines_that_are_no_rows_are_left(command, write, saved):
    """A damaged line is printed as it is and counted; with `--strict` it is an error."""
    lines = (b"junk", b"[]", b"")
    path = saved(*lines)
    ended = command("rows", "--strict", path, write(FAILED))
    assert ended.status == 4
    assert ended.output == "junk\n[]\n\n"
    assert ended.errors.endswith("gym-failures: lines that are no rows, left as they are: 2\n")
    assert command("rows", path, write(FAILED)).status == 0


def test_rows_that_are_not_there(command, write, tmp_path):
    """A file of rows that cannot be read is wrong use."""
    ended = command("rows", tmp_path / "nowhere.jsonl", write(FAILED))
    assert (ended.status, ended.output) == (2, "")
    assert "No such file" in ended.errors


def test_rows_that_are_compressed(command, write, saved, tmp_path):
    """Compressed rows come out as what they unpack to, told of as those that are not."""
    plain = saved(FINE, ROW)
    packed = tmp_path / "rollouts.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert command("rows", packed, write(FAILED)) == command("rows", plain, write(FAILED))


def test_compressed_rows_that_were_cut(command, write, saved, tmp_path):
    """Rows before a cut come out; the cut is named, and an error with `--strict`."""
    packed = tmp_path / "rollouts.jsonl.gz"
    packed.write_bytes(gzip.compress(saved(ROW).read_bytes())[:-9])
    ended = command("rows", "--strict", packed, write(FAILED))
    assert ended.status == 4
    assert f"skipped: {packed}: the compressed data ends too soon\n" in ended.errors


@pytest.mark.parametrize("end", [b"\n", b""], ids=["a line", "the last line"])
def test_a_row_without_end_is_passed_on(command, write, tmp_path, monkeypatch, end):
    """A line longer than any row is not held: it comes out as it is, its parts taken for no rows, and is told of."""
    monkeypatch.setattr(limits, "STORED_RECORD", 1_000)
    row = json.dumps(ROW).encode()
    data = row + b"\n" + b" " * 1_001 + row + end
    packed = tmp_path / "rollouts.jsonl.gz"
    packed.write_bytes(gzip.compress(data))
    ended = command("rows", "--strict", packed, write(FAILED))
    joined, _, left = ended.output.encode().partition(b"\n")
    assert (set(read_row(json.loads(joined)).report.events), left) == ({"m", "a"}, data[len(row) + 1 :])
    assert ended.status == 4
    assert f"skipped: {packed}, line 2: too long to be read\n" in ended.errors
    assert "rows with failures: 1;" in ended.errors


def test_rows_from_standard_input(command, write, saved):
    """Rows may come from standard input, if the traces do not."""
    given = saved(FINE, ROW).read_bytes()
    assert command("rows", "-", write(FAILED), given=given) == command("rows", saved(FINE, ROW), write(FAILED))
    ended = command("rows", "-", "-", given=given)
    assert (ended.status, ended.output) == (2, "")
    assert "standard input holds rows or traces, not both" in ended.errors
    ended = command("rows", "-", write(FAILED), given=None)
    assert (ended.status, ended.errors) == (2, "gym-failures: standard input is closed\n")


def test_traces_from_standard_input(command, saved):
    """Traces may come from standard input."""
    ended = command("rows", saved(ROW), "-", given=as_line(FAILED).encode())
    assert "rows with failures: 1;" in ended.errors


def test_rows_of_another_run_are_left(command, write, saved):
    """A row takes what its own trace tells, and nothing of a rollout that has its id in another run."""
    first = server(1, None, told(failure("a")), own="a", rollout="3-1", name="gym.rollout", trace="a" * 32)
    second = server(1, None, told(failure("b")), own="b", rollout="3-1", name="gym.rollout", trace="b" * 32)
    rows = [ROW, {**ROW, "_ng_failure_trace_id": "b" * 32}, {**ROW, "_ng_failure_trace_id": "c" * 32}]
    ended = command("rows", saved(*rows), write(first, second))
    left, joined, other = map(json.loads, ended.output.splitlines())
    assert (read_row(left).report.events, read_row(other).report.events) == ({}, {})
    assert read_row(joined).report.failure_id == "b"
    assert ended.errors.splitlines() == [
        "rows with failures: 1; rollouts of the traces without a row: 1",
        "gym-failures: rows left as they are, because the traces of several runs have their rollouts: 1",
    ]


NOON = 1_700_000_000
HOURS = 3_600


@pytest.mark.parametrize(
    ("case", "joins"),
    [
        (("gym.rollout", NOON), True),
        (("gym.rollout", NOON + 7), True),
        (("gym.rollout", NOON + 60), False),
        (("gym.rollout", NOON - HOURS), False),
        (("gym.rollout", None), True),
        (("POST /v1/responses", NOON + 60), True),
        (("POST /v1/responses", NOON + 3 * HOURS), False),
    ],
)
def test_a_row_of_another_time_is_left(command, write, saved, case, joins):
    """A run that went well makes no report, so the failures of an older one are told apart by the time of a row."""
    name, created = case
    failed = server(1, None, told(failure("a")), own="a", rollout="3-1", name=name)
    times = {"start_ns": NOON * 10**9 + 5, "end_ns": (NOON + 7) * 10**9}
    rows = [{**ROW, "response": {"created_at": created}}] * 2
    ended = command("rows", saved(*rows), write(replace(failed, **times)))
    events = [set(read_row(json.loads(line)).report.events) for line in ended.output.splitlines()]
    assert events == [{"a"} if joins else set()] * 2
    left = "gym-failures: rows left as they are, because the traces have their rollouts at another time: 2"
    first, *others = ended.errors.splitlines()
    assert first == f"rows with failures: {2 * joins}; rollouts of the traces without a row: {1 - joins}"
    assert others == ([] if joins else [left])


def test_a_row_of_another_time_than_a_log_is_left(command, write, saved):
    """That a line in a log has no end does not make it one of all times."""
    line = server(1, None, told(failure("a")), own="a", rollout="3-1")
    row = {**ROW, "response": {"created_at": NOON - 3 * HOURS}}
    ended = command("rows", saved(row), write(replace(line, start_ns=NOON * 10**9, end_ns=0)))
    assert "rows with failures: 0;" in ended.errors


def test_the_time_of_a_row_tells_runs_apart(command, write, saved):
    """Of traces of several runs, a row takes what was at the time of its response."""
    spans = [
        replace(
            server(1, None, told(failure(run)), own=run, rollout="3-1", name="gym.rollout", trace=run * 32),
            start_ns=(NOON + hour * HOURS) * 10**9,
            end_ns=(NOON + hour * HOURS + 9) * 10**9,
        )
        for hour, run in enumerate("ab")
    ]
    row = {**ROW, "response": {"created_at": NOON + HOURS + 3}}
    assert set(read_row(json.loads(command("rows", saved(row), write(*spans)).output)).report.events) == {"b"}


def test_a_row_that_cannot_be_read_is_left(command, write, saved):
    """A row whose failures are no map of events is printed as it is and counted."""
    row = {**ROW, "_ng_failure_events": 5}
    ended = command("rows", saved(row), write(FAILED))
    assert json.loads(ended.output)["_ng_failure_events"] == 5
    assert "lines that are no rows, left as they are: 1" in ended.errors


def test_a_row_keeps_what_its_trace_does_not_tell(command, write, saved):
    """Traces of some servers only take nothing from a row that knows the end of its rollout."""
    report = FailureReport(events={"c": failure("c", "m"), "m": failure("m", kind="cancelled")}, failure_id="c")
    row = with_failures(ROW, report, trace_id=FAILED.trace_id)
    only = server(1, None, told(failure("m", kind="cancelled")), own="m", rollout="3-1")
    joined = read_row(json.loads(command("rows", saved(row), write(only)).output))
    assert (joined.report, joined.trace_id) == (report, FAILED.trace_id)
