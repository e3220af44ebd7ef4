"""What `show` and `count` do with files: good ones, bad ones, and none."""

import re
from pathlib import Path

import pytest

from gym_failures import limits
from tests.spans import failure, relayed, server, span, told
from tests.stored import as_line

DATA = Path(__file__).parents[1] / "data"
JUNK = "junk"

RECOVERED = server(1, None, told(failure("x")), rollout="r1", trace="1" * 32)
FAILED = server(2, None, told(failure("m", kind="cancelled")), told(failure("a", "m"), at=1), own="a", rollout="r2")
FINE = server(3, None, rollout="r3", trace="3" * 32)
COMMANDS = ("show", "count")


def test_show_prints_a_tree_for_each_rollout_that_failed(command, write):
    """`show` prints what failed, and how many rollouts are only recovered."""
    ended = command("show", write(RECOVERED, FAILED, FINE))
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.splitlines() == [
        f"✗ rollout r2  cancelled at agent  trace {FAILED.trace_id}",
        "└── cancelled at agent",
        "    └── agent_run_error at agent",
        "",
        "1 rollout failed, 1 recovered (--all shows them)",
    ]


def test_show_all_prints_what_was_recovered_from_too(command, write):
    """`show --all` has a tree for every rollout with a failure in it, in the order of their times."""
    ended = command("show", "--all", write(FAILED, RECOVERED, FINE))
    assert [line for line in ended.output.splitlines() if line[:1] in {"✓", "✗"}] == [
        f"✓ rollout r1  recovered from 1  trace {RECOVERED.trace_id}",
        f"✗ rollout r2  cancelled at agent  trace {FAILED.trace_id}",
    ]
    assert ended.output.endswith("\n1 rollout failed, 1 recovered\n")


@pytest.mark.parametrize("unit", ["rollout", "request", "trace"])
def test_show_by(command, write, unit):
    """`show --by` says what a tree is made of."""
    ended = command("show", "--by", unit, write(FAILED))
    assert ended.output.startswith(f"✗ {unit} ")
    assert ended.output.endswith(f"1 {unit} failed\n")


def test_files_are_read_together(command, write):
    """The spans of one rollout are found in the files of several servers."""
    agent = server(1, None, told(failure("a", "m")), own="a", rollout="r")
    model = server(2, 1, told(failure("m", kind="cancelled")), own="m")
    ended = command("show", write(agent, name="agent.jsonl"), write(model, name="model.jsonl"))
    assert "1 rollout failed\n" in ended.output
    assert "no span tells" not in ended.output


@pytest.fixture
def at_home(write, tmp_path, monkeypatch):
    """Have the folder that `run` leaves in the current one, with a rollout that failed, and give that one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GYM_FAILURES_TRACES", raising=False)
    (tmp_path / "gym-failures-traces").mkdir()
    write(FAILED, name="gym-failures-traces/1.jsonl")
    return tmp_path


@pytest.mark.parametrize("call", [("show",), ("count",), ("report",), ("rows", "rollouts.jsonl")], ids=" ".join)
def test_without_a_name_the_folder_that_run_leaves_is_read(command, at_home, call):
    """What `run` has left in the current folder is read where no file is named, and that is said."""
    (at_home / "rollouts.jsonl").write_text('{"_ng_rollout_id": "r2"}\n')
    ended = command(*call)
    assert ended.status == 0
    assert "gym-failures: reading gym-failures-traces\n" in ended.errors
    page = (at_home / "failures.html").read_text(encoding="utf-8") if call == ("report",) else ""
    assert "cancelled" in ended.output + page


def test_the_folder_that_is_read_is_the_one_that_run_writes_to(command, at_home, monkeypatch):
    """`GYM_FAILURES_TRACES` names the folder for who writes and who reads."""
    (at_home / "gym-failures-traces").rename(at_home / "elsewhere")
    monkeypatch.setenv("GYM_FAILURES_TRACES", "elsewhere")
    ended = command("show")
    assert (ended.status, ended.errors) == (0, "gym-failures: reading elsewhere\n")
    assert "rollout r2" in ended.output


@pytest.mark.usefixtures("at_home")
def test_a_named_file_is_read_alone(command, write):
    """Where a file is named, nothing else is read."""
    assert command("count", write()) == (0, "no failures\n", "")


def test_folders_and_patterns(command, write, tmp_path):
    """A folder stands for its files of spans, a pattern for the files that are like it, and no file is read twice."""
    (tmp_path / "run" / "deep").mkdir(parents=True)
    agent = server(1, None, told(failure("a", "m")), own="a", rollout="r")
    model = server(2, 1, told(failure("m", kind="cancelled")), own="m")
    write(agent, name="run/agent.jsonl")
    write(model, name="run/deep/model.jsonl")
    (tmp_path / "run" / "notes.txt").write_text(JUNK)
    of_folder = command("show", tmp_path / "run")
    assert (of_folder.status, of_folder.errors) == (0, "")
    assert "1 failures are named, but no span tells of them" in of_folder.output
    for both in (
        (f"{tmp_path}/**/*.jsonl",),
        (tmp_path / "run", tmp_path / "run" / "deep", tmp_path / "run/agent.jsonl"),
    ):
        shown = command("show", *both)
        assert (shown.status, shown.errors) == (0, "")
        assert "└── cancelled at agent" in shown.output


@pytest.mark.parametrize("name", ["jaeger.json", "collector.jsonl"])
def test_a_json_file_of_a_folder_is_taken_for_what_is_in_it(command, tmp_path, name):
    """A folder's `.json` is read if it holds traces, as what Jaeger's pages download, and is nothing to it if not."""
    (tmp_path / "traces.json").write_bytes((DATA / name).read_bytes())
    (tmp_path / "rollouts_aggregate_metrics.json").write_text('[{"agent": "a", "mean/reward": 0.5}]')
    ended = command("show", "--strict", tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output == command("show", DATA / name).output


def test_the_folder_of_a_run(command, write, tmp_path):
    """A folder as the demo leaves it stands for its traces, and not for what else of the run is in it."""
    for folder in ("spans", "replies"):
        (tmp_path / folder).mkdir()
    write(FAILED, name="spans/agent.jsonl")
    (tmp_path / "replies" / "agent.jsonl").write_text(JUNK)
    ended = command("show", tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert "1 rollout failed" in ended.output


@pytest.mark.parametrize(
    ("folders", "said"),
    {
        "one": (["a"], "; there are some in {0}/a\n"),
        "many": (["d", "a", "c", "b"], "; there are some in {0}/a, {0}/b, {0}/c and more\n"),
        "one with the name of a pattern": (["[x]"], "; there are some in {0}/[x]\n"),
        "none": ([], " with traces in it\n"),
    }.values(),
    ids=["one", "many", "pattern", "none"],
)
def test_a_folder_of_folders(command, write, tmp_path, folders, said):
    """A folder without traces is an error, which names the folders in it that have some."""
    run = tmp_path / "run[1]"
    for folder in [*folders, "empty"]:
        (run / folder).mkdir(parents=True)
    for folder in folders:
        write(FAILED, name=f"run[1]/{folder}/agent.jsonl")
    ended = command("show", run)
    assert (ended.status, ended.output) == (2, "")
    assert ended.errors.endswith(said.format(run))


def test_a_file_with_the_name_of_a_pattern(command, write):
    """A file that is there is no pattern, whatever its name holds."""
    assert "1 rollout failed" in command("show", write(FAILED, name="a[1]*.jsonl")).output


def test_count_prints_a_table(command, write):
    """`count` has a row for each kind, the most frequent first, and a column for each boundary that saw any."""
    kinds = ("my_new_kind", "cancelled", "cancelled", "server:kind")
    events = [told(failure(str(number), kind=kind), at=number) for number, kind in enumerate(kinds)]
    ended = command("count", write(server(1, None, *events, told(failure("a", "0"), at=9), own="a")))
    assert (ended.status, ended.errors) == (0, "")
    assert [line.split() for line in ended.output.splitlines() if line.strip("─ ")] == [
        ["root"],
        ["kind", "agent", "total", "causes"],
        ["cancelled", "2", "2", "2"],
        ["agent_run_error", "1", "1"],
        ["my_new_kind", "*", "1", "1", "1"],
        ["server:kind", "1", "1", "1"],
        ["total", "5", "5", "4"],
        ["*", "no", "registered", "kind:", "metrics", "count", "it", "as", "_OTHER"],
    ]


def test_count_says_what_the_table_cannot(command, write):
    """Failures known from replies only, and causes that are nowhere, are told beneath the table."""
    spans = server(1, None, relayed(failure("r")), told(failure("a", "gone"), at=1), own="a")
    output = command("count", write(spans)).output
    assert "1 known from replies only: the process that observed them stored no span\n" in output
    assert "1 causes are named but not there: up to as many root causes are none\n" in output


def test_a_failure_counts_once_however_many_tell_of_it(command, write):
    """A failure that three replies carried is one failure, wherever its spans are."""
    hops = [server(n, None, relayed(failure("f")), trace=str(n) * 32) for n in (2, 3, 4)]
    output = command("count", write(server(1, None, told(failure("f")), own="f"), *hops)).output
    assert re.search(r"^total +1 +1 +1$", output, re.MULTILINE)
    assert "known from replies" not in output


def test_count_of_nothing(command, write):
    """Where nothing failed, `count` says so."""
    assert command("count", write(FINE)) == (0, "no failures\n", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("spans", "status"), [((FAILED,), 1), ((FINE,), 0)], ids=["failed", "fine"])
def test_exit_code_tells_whether_anything_failed(command, write, name, spans, status):
    """With `--exit-code` a failure is a status of 1, for scripts; without it, none is."""
    path = write(*spans)
    assert command(name, "--exit-code", path).status == status
    assert command(name, path).status == 0


def test_a_recovered_rollout_did_not_fail(command, write):
    """For `show --exit-code` a rollout that recovered is well."""
    assert command("show", "--exit-code", write(RECOVERED)).status == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_input(command, name):
    """A dash reads standard input."""
    ended = command(name, "-", given=as_line(FAILED).encode())
    assert (ended.status, ended.errors) == (0, "")
    assert "agent_run_error" in ended.output


@pytest.mark.parametrize("name", COMMANDS)
def test_closed_standard_input(command, write, name):
    """Where standard input is closed, as some daemons have it, files are read as ever, and a dash is wrong use."""
    assert command(name, write(FAILED), given=None).status == 0
    ended = command(name, "-", given=None)
    assert (ended.status, ended.output) == (2, "")
    assert "standard input is closed" in ended.errors


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unreadable_place_is_named_and_costs_nothing_else(command, write, name):
    """A damaged line is skipped, and named with its file on standard error; the rest is read."""
    path = write(FAILED)
    path.write_text(f"{JUNK}\n{path.read_text()}")
    ended = command(name, path)
    assert ended.status == 0
    assert "agent_run_error" in ended.output
    assert ended.errors.startswith(f"skipped: {path}, line 1: ")


def test_many_unreadable_places_are_counted(command, write):
    """Of many damaged lines the first are named, and all are counted."""
    path = write(FAILED)
    path.write_text(path.read_text() + f"{JUNK}\n" * 50)
    errors = command("count", path).errors.splitlines()
    assert len(errors) == limits.SKIPS_SHOWN + 1
    assert errors[-1] == "skipped: 50 places in all"


@pytest.mark.parametrize("name", COMMANDS)
def test_strict_makes_an_error_of_what_is_skipped(command, write, name):
    """With `--strict` a damaged line is a status of 4, whatever failed; the result is printed all the same."""
    path = write(FAILED)
    assert command(name, "--strict", path).status == 0
    path.write_text(f"{JUNK}\n{path.read_text()}")
    ended = command(name, "--strict", "--exit-code", path)
    assert ended.status == 4
    assert "agent_run_error" in ended.output


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_something_else_is_an_error(command, write, name):
    """A file in which nothing can be read ends the command with status 3, and without a result."""
    path = write()
    path.write_text(JUNK)
    ended = command(name, path)
    assert (ended.status, ended.output) == (3, "")
    assert "no span can be read; are these traces?" in ended.errors


def test_metrics_and_logs_beside_traces_are_no_damage(command, write):
    """A folder into which a process exports everything is read as its traces; without spans it is the wrong one."""
    path = write(FAILED)
    metrics = path.with_name("metrics.jsonl")
    metrics.write_text('{"resourceMetrics":[]}\n' * 3)
    path.with_name("logs.jsonl").write_text('{"resourceLogs":[]}\n' * 3)
    ended = command("count", "--strict", path.parent)
    assert (ended.status, ended.errors) == (0, "")
    assert "agent_run_error" in ended.output
    ended = command("count", metrics)
    assert (ended.status, ended.output) == (3, "")


def test_an_empty_file_is_no_error(command, write):
    """A server that served nothing has written nothing; that is not worth an error."""
    assert command("count", write()) == (0, "no failures\n", "")


@pytest.fixture
def _nowhere(tmp_path, monkeypatch):
    """Be in a folder in which nothing is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GYM_FAILURES_TRACES", raising=False)


@pytest.mark.usefixtures("_nowhere")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    {
        "no file": ((), "name files or folders; there is no folder gym-failures-traces"),
        "a file that is not there": (("nowhere.jsonl",), "gym-failures: nowhere.jsonl: No such file or directory"),
        "a folder without spans": (("/",), "gym-failures: /: no file in this folder ends in .jsonl, .gz, .zst, .pb"),
        "a pattern of nothing": (("nowhere/*.jsonl",), "gym-failures: nowhere/*.jsonl: no file is like this"),
        "an option that is none": (("--nothing", "-"), "No such option"),
    }.values(),
    ids=["no file", "not there", "a folder", "no match", "no option"],
)
def test_wrong_use_is_an_error(command, name, wrong, said):
    """A call that cannot be meant ends with status 2, and says on standard error what was wrong."""
    ended = command(name, *wrong)
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors


def test_a_file_name_is_no_more_than_text(command, tmp_path):
    """A file's name can hold anything, and is shown without effect on the terminal."""
    path = tmp_path / "\x1b[2J[red].jsonl"
    path.write_text(JUNK)
    errors = command("show", path).errors
    assert "\x1b" not in errors
    assert r"\x1b[2J[red].jsonl" in errors


def test_the_end_says_how_many_were_cancelled(command, write):
    """Who sees a long list learns in its last line how much of it was given up, which tells of no cause."""
    given_up = [
        server(
            number, None, told(failure("c", kind="cancelled")), own="c", rollout=f"r{number}", trace=f"{number:032x}"
        )
        for number in (3, 4)
    ]
    failing = server(5, None, told(failure("f")), own="f", rollout="r5", trace="5" * 32)
    assert command("show", write(*given_up, failing)).output.endswith("\n3 rollouts failed, 2 of them cancelled\n")


def test_a_span_alone_is_nothing(command, write):
    """A file of spans without failures shows none."""
    assert command("show", write(span(1))) == (0, "0 rollouts failed\n", "")
