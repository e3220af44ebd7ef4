"""Choosing failures by what they are, and printing what was chosen for other programs."""

import csv
import io
import json
import time

import pytest

from gym_failures.cli.choice import Choice
from gym_failures.cli.times import hour, instant, moment
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.records import FailureReport
from tests.spans import failure, relayed, server, told

HOUR = 3_600 * 10**9
DAY = 24 * HOUR
NOON = 20_000 * DAY + 12 * HOUR  # 2024-10-04T12:00Z

REFUSED = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL, reason="401").model_copy(
    update={"stage": FailureStage.AGENT, "http_status": 401}
)
ONE = server(
    1, None, told(REFUSED, at=NOON), told(failure("a", "m"), at=NOON + 5_000), own="a", rollout="r1", service="agent"
)
TWO = server(
    2, None, told(failure("x", kind="my_new_kind"), at=NOON + HOUR), own="x", rollout="r2", trace="2" * 32,
    service="harness",
)  # fmt: skip
FINE = server(3, None, relayed(failure("y", kind="shutdown"), at=NOON + DAY), rollout="r3", trace="3" * 32)
ALL = (ONE, TWO, FINE)

CHOICES = {
    "nothing": ((), {"m", "a", "x", "y"}),
    "a kind": (("--kind", "provider_unavailable"), {"m"}),
    "a pattern of kinds": (("--kind", "*_unavailable", "--kind", "my_*"), {"m", "x"}),
    "a boundary": (("--boundary", "model"), {"m"}),
    "either boundary": (("--boundary", "model", "--boundary", "agent"), {"m", "a", "x", "y"}),
    "a service": (("--service", "h*"), {"x"}),
    "a rollout": (("--rollout", "r1"), {"m", "a"}),
    "from a time on": (("--since", "2024-10-04T13:00"), {"x", "y"}),
    "before a time": (("--until", "2024-10-04T13:00Z"), {"m", "a"}),
    "before a time elsewhere": (("--until", "2024-10-04T15:00+02:00"), {"m", "a"}),
    "from a day on": (("--since", "2024-10-05"), {"y"}),
    "within the last day": (("--since", "1d"), set()),
    "all of it at once": (("--kind", "agent*", "--boundary", "agent", "--service", "agent", "--rollout", "r?"), {"a"}),
    "what nothing is": (("--kind", "agent*", "--boundary", "model"), set()),
}
ROLLOUT_OF = {"m": "r1", "a": "r1", "x": "r2", "y": "r3"}


@pytest.mark.parametrize(("options", "ids"), CHOICES.values(), ids=CHOICES)
def test_count_counts_what_is_chosen(command, write, options, ids):
    """Each option narrows what is counted, one given several times takes any of its values."""
    ended = command("count", "--format", "json", *options, write(*ALL))
    assert (ended.status, ended.errors) == (0, "")
    assert json.loads(ended.output)["failures"] == len(ids)


@pytest.mark.parametrize(("options", "ids"), CHOICES.values(), ids=CHOICES)
def test_show_shows_whole_rollouts_with_what_is_chosen(command, write, options, ids):
    """A rollout is shown when one of its failures is chosen, and then with all of them."""
    shown = json.loads(command("show", "--all", "--format", "json", *options, write(*ALL)).output)["reports"]
    assert {report["key"] for report in shown} == {ROLLOUT_OF[event_id] for event_id in ids}
    for report in shown:
        assert set(report["report"]["events"]) == {id_ for id_, key in ROLLOUT_OF.items() if key == report["key"]}


@pytest.mark.parametrize("unit", ["request", "trace", "rollout"])
def test_show_shows_what_has_an_id(command, write, unit):
    """One tree is shown by the id that its first line has, whatever trees are made of, and one without is not."""
    path = write(*ALL, server(9, None, told(failure("z")), own="z", trace="9" * 32))
    (wanted,) = json.loads(command("show", "--by", unit, "--format", "json", "--kind", "my_*", path).output)["reports"]
    ended = command("show", "--all", "--by", unit, "--format", "json", "--id", wanted["key"], path)
    assert json.loads(ended.output)["reports"] == [wanted]
    assert command("show", "--by", unit, "--id", wanted["key"], "--kind", "shutdown", path).output.startswith("0 ")


def test_a_kind_that_is_nowhere(command, write):
    """A kind that is neither registered nor in the files may be a slip, and `count` says so; the status is the same."""
    options = [part for kind in ("nonsense", "my_*", "cancelled", "provider_*") for part in ("--kind", kind)]
    ended = command("count", *options, "--until", "2024-10-04T13:00", write(*ALL))
    assert (ended.status, ended.errors) == (
        0,
        "gym-failures: no kind is like nonsense, neither here nor registered (gym-failures kinds lists these)\n",
    )


def test_a_time_that_is_not_known_is_no_time_that_is_asked_for(command, write):
    """A failure without a time is in no range of times, on either side, and how many there are is said."""
    path = write(server(1, None, told(failure("a")), told(failure("b", kind="cancelled")), own="a"))
    said = "gym-failures: 2 failures are left out, of a time that is not known\n"
    for option in ("--since", "--until"):
        ended = command("count", "--format", "json", option, "2024-01-01", path)
        counted = json.loads(ended.output)
        assert (counted["failures"], counted["without_time"], ended.errors) == (0, 2, said)
        shown = command("show", option, "2024-01-01", path)
        assert (shown.output, shown.errors) == ("0 rollouts failed\n", said)
    page = path.with_name("page.html")
    assert said in command("report", "--until", "2024-01-01", "--output", page, path).errors


@pytest.mark.parametrize("options", [(), ("--kind", "shutdown", "--since", "2024-01-01"), ("--kind", "agent_*")])
def test_a_time_that_is_not_asked_for_need_not_be_known(command, write, options):
    """Failures without a time are spoken of where a time is asked for, and they could be what is asked for."""
    path = write(server(1, None, told(failure("a")), own="a"))
    for name in ("count", "show"):
        assert command(name, *options, path).errors == ""


def test_exit_code_is_of_what_was_chosen(command, write):
    """`--exit-code` tells whether anything failed of what was asked for."""
    path = write(*ALL)
    for name in ("show", "count"):
        assert command(name, "--exit-code", "--kind", "provider_*", path).status == 1
        assert command(name, "--exit-code", "--kind", "cancelled", path).status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "--since", "yesterday"), "no time like"),
        (("count", "--until", "2024-13-01"), "no time like"),
        (("count", "--since", "999999d"), "no time like"),
        (("count", "--boundary", "kitchen"), "kitchen"),
        (("count", "--by", "kind,colour"), "is not made of kind, boundary, stage, service, hour"),
        (("count", "--by", "hour", "--format", "prometheus"), "no label"),
        (("show", "--by", "request", "--rollout", "r1"), "is not asked for by rollout"),
    ],
)
def test_an_option_that_cannot_be_meant_is_an_error(command, write, arguments, said):
    """A wrong value ends the command with status 2, and the message says what would be right."""
    ended = command(*arguments, write(*ALL))
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors


def test_a_table_by_anything(command, write):
    """`count --by` has a row for each combination; what a failure has none of is a dash."""
    lines = command("count", "--by", "stage,service", write(*ALL)).output.splitlines()
    assert [line.split() for line in lines if line.strip("─ ")] == [
        ["root"],
        ["stage", "service", "failures", "causes"],
        ["-", "-", "1", "1"],
        ["-", "agent", "1"],
        ["-", "harness", "1", "1"],
        ["agent", "agent", "1", "1"],
        ["total", "4", "3"],
        [
            "1",
            "known",
            "from",
            "replies",
            "only:",
            "the",
            "process",
            "that",
            "observed",
            "them",
            "stored",
            "no",
            "span",
        ],
    ]


def test_hours_stand_in_their_order(command, write):
    """Counted by hour, rows are in the order of time, however many each has."""
    rows = json.loads(command("count", "--by", "hour", "--format", "json", write(*ALL)).output)["rows"]
    assert [(row["hour"], row["failures"]) for row in rows] == [
        ("2024-10-04T12:00Z", 2),
        ("2024-10-04T13:00Z", 1),
        ("2024-10-05T12:00Z", 1),
    ]


def test_counts_as_json(command, write):
    """The JSON of `count` has the fields, the rows, the sums, and what is not known."""
    path = write(*ALL)
    path.write_text(f"{path.read_text()}junk\n")
    assert json.loads(command("count", "--format", "json", path).output) == {
        "by": ["kind", "boundary"],
        "rows": [
            {"kind": "agent_run_error", "boundary": "agent", "failures": 1, "root_causes": 0},
            {"kind": "my_new_kind", "boundary": "agent", "failures": 1, "root_causes": 1},
            {"kind": "provider_unavailable", "boundary": "model", "failures": 1, "root_causes": 1},
            {"kind": "shutdown", "boundary": "agent", "failures": 1, "root_causes": 1},
        ],
        "failures": 4,
        "root_causes": 3,
        "known_from_replies_only": 1,
        "missing_causes": 0,
        "without_time": 0,
        "skipped": 1,
    }


def test_counts_as_csv(command, write):
    """The CSV of `count` reads back as the rows, and no cell of it is a formula (OWASP, CSV injection)."""
    formula = server(1, None, told(failure("a", kind='=1+"2",3')), own="a")
    rows = list(
        csv.reader(io.StringIO(command("count", "--format", "csv", "--by", "kind,stage", write(formula)).output))
    )
    assert rows == [["kind", "stage", "failures", "root_causes"], ['\'=1+"2",3', "", "1", "1"]]


def test_counts_for_prometheus(command, write):
    """The series of `count` are those of the metric: its name, its labels, and `_OTHER` for kinds of nobody."""
    two = server(9, None, told(failure("z", kind="another_kind")), own="z", trace="9" * 32)
    output = command("count", "--format", "prometheus", "--by", "kind,boundary,stage", write(*ALL, two)).output
    assert output.splitlines() == [
        "# HELP gym_failures_total Failures, each once, as found in stored spans.",
        "# TYPE gym_failures_total counter",
        'gym_failures_total{failure_kind="_OTHER",failure_boundary="agent",failure_root="true"} 2',
        'gym_failures_total{failure_kind="agent_run_error",failure_boundary="agent",failure_root="false"} 1',
        (
            'gym_failures_total{failure_kind="provider_unavailable",failure_boundary="model",failure_stage="agent",'
            'failure_root="true"} 1'
        ),
        'gym_failures_total{failure_kind="shutdown",failure_boundary="agent",failure_root="true"} 1',
    ]


def test_a_label_is_escaped(command, write):
    """What a label may not hold is escaped as Prometheus's text format says."""
    named = server(1, None, told(failure("a")), own="a", service='a"b\\c\nd')
    output = command("count", "--format", "prometheus", "--by", "service", write(named)).output
    assert 'service_name="a\\"b\\\\c\\nd"' in output


def test_reports_as_json(command, write):
    """The JSON of `show` has each report with what is known of it, and can be read as a report again."""
    document = json.loads(command("show", "--format", "json", write(*ALL)).output)
    reports = document.pop("reports")
    assert document == {"by": "rollout", "failed": 2, "recovered": 1, "spans": 3, "skipped": 0}
    assert [report["key"] for report in reports] == ["r1", "r2"]
    first = reports[0]
    assert FailureReport.model_validate(first.pop("report")).events["m"] == REFUSED
    assert first == {
        "by": "rollout",
        "key": "r1",
        "trace_id": ONE.trace_id,
        "failed": True,
        "kind": "provider_unavailable",
        "boundary": "model",
        "chain": ["m", "a"],
        "times": {"m": "2024-10-04T12:00:00.000000Z", "a": "2024-10-04T12:00:00.000005Z"},
        "services": {"m": "agent", "a": "agent"},
        "span": {
            "span_id": ONE.span_id,
            "name": "work",
            "service": "agent",
            "start": "1970-01-01T00:00:00.000000Z",
            "end": "1970-01-01T00:00:00.000000Z",
        },
        "recovered": [],
        "unlinked": [],
        "late": [],
        "unseen": [],
        "remote_only": [],
        "cut": [],
        "missing_causes": [],
        "circular_causes": [],
        "dropped_events": 0,
        "unreadable": 0,
    }


def test_reports_as_lines_of_json(command, write):
    """`show --format jsonl` prints the same reports, one a line, and nothing besides."""
    path = write(*ALL)
    lines = command("show", "--all", "--format", "jsonl", path).output.splitlines()
    assert [*map(json.loads, lines)] == json.loads(command("show", "--all", "--format", "json", path).output)["reports"]


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_json_is_no_more_than_text(command, write, name):
    """Whatever a reason holds, JSON that goes to a terminal cannot control it."""
    hostile = server(1, None, told(failure("a", reason="\x1b[2J\x9b2J\u202e")), own="a")
    assert command("show", "--format", name, write(hostile)).output.replace("\n", "").isprintable()


def test_moments():
    """A moment is read to the microsecond, and so long ago is counted from now."""
    assert moment("2024-10-04T12:00:00.000005Z") == NOON + 5_000
    assert moment("2024-10-04") == NOON - 12 * HOUR
    before = time.time_ns()
    assert before - 90 * 60 * 10**9 <= moment("90m") + 1_000 <= time.time_ns() + 1_000 - 90 * 60 * 10**9 + 1_000


@pytest.mark.parametrize("time_ns", [0, -1, 10**30])
def test_what_is_no_date(time_ns):
    """A time that is not known, or that no calendar has, is none."""
    assert instant(time_ns) is hour(time_ns) is None


def test_the_empty_choice_has_everything():
    """A choice that asks for nothing in particular leaves the reports as they are."""
    reports = [object()]
    assert [*Choice().of(reports)] == reports
