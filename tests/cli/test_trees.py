"""What a tree says of a report, and how."""

import io
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from rich.console import Console

from gym_failures import limits
from gym_failures.cli.terminal import plain
from gym_failures.cli.tree import tree_of
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import rebuild
from tests.spans import client, failure, relayed, server, told
from tests.strategies import call_trees, texts

TRACE = "0af7651916cd43dd8448eb211c80319c"
MODEL = FailureBoundary.MODEL


def drawn(report, by="rollout"):
    """Return the lines of a report's tree, as they go into a pipe."""
    console = Console(file=io.StringIO(), width=10_000, highlight=False)
    console.print(tree_of(report, by))
    return console.file.getvalue().rstrip("\n").split("\n")


def only(*spans, by="rollout"):
    """Return the one report that is rebuilt from spans."""
    (report,) = rebuild(spans, by=by)
    return report


def refused(event_id, attempt=None, **fields):
    """Return a provider's 429, at one attempt of an operation."""
    event = failure(event_id, boundary=MODEL, kind="provider_quota_exhausted", reason="HTTP 429")
    numbered = {} if attempt is None else {"operation_id": "op", "attempt_id": f"op.{attempt}"}
    return event.model_copy(update={"http_status": 429, **numbered, **fields})


FAILED = server(1, None, told(refused("m")), told(failure("a", "m"), at=1), own="a", rollout="r7", service="agent")

TREES = {
    "a chain begins with its root cause": (
        (FAILED,),
        [
            f"✗ rollout r7  provider_quota_exhausted at model  trace {TRACE}",
            "└── provider_quota_exhausted at model  HTTP 429  agent",
            "    └── agent_run_error at agent",
        ],
    ),
    "a rollout that is not known is a trace": (
        (server(1, None, told(failure("a")), own="a"),),
        [f"✗ trace {TRACE}  agent_run_error at agent", "└── agent_run_error at agent"],
    ),
    "everything that is known is said": (
        (
            server(
                1,
                None,
                told(
                    refused(
                        "m",
                        failure_reason="slow down",
                        exception_type="aiohttp.client_exceptions.ClientResponseError",
                        operation="model POST /v1/responses",
                    )
                ),
                own="m",
            ),
        ),
        [
            f"✗ trace {TRACE}  provider_quota_exhausted at model",
            (
                "└── provider_quota_exhausted at model  HTTP 429  ClientResponseError  slow down"
                "  model POST /v1/responses"
            ),
        ],
    ),
    "attempts that were tried again stand beside the last one": (
        (
            server(
                1,
                None,
                *(told(refused(str(number), number), at=number) for number in (1, 2, 3)),
                told(failure("a", "3"), at=4),
                own="a",
            ),
        ),
        [
            f"✗ trace {TRACE}  provider_quota_exhausted at model",
            "├── provider_quota_exhausted at model  HTTP 429  (attempt 3)",
            "│   └── agent_run_error at agent",
            "├── provider_quota_exhausted at model  HTTP 429  (attempt 1, tried again)",
            "└── provider_quota_exhausted at model  HTTP 429  (attempt 2, tried again)",
        ],
    ),
    "what is not linked is said to be so": (
        (server(1, None, told(failure("a")), told(failure("x", kind="shutdown"), at=1), own="a"),),
        [
            f"✗ trace {TRACE}  agent_run_error at agent",
            "├── agent_run_error at agent",
            "└── shutdown at agent  (not linked)",
        ],
    ),
    "what was recovered from is no failure": (
        (server(1, None, told(failure("a"))),),
        [f"✓ trace {TRACE}  recovered from 1", "└── agent_run_error at agent  (recovered)"],
    ),
    "what came late and what a reply told": (
        (server(1, None, told(failure("a"), late=True), relayed(failure("b"), at=1)),),
        [
            f"✓ trace {TRACE}  recovered from 1",
            "├── agent_run_error at agent  (after the reply)",
            "└── agent_run_error at agent  (recovered, known from a reply only)",
        ],
    ),
    "what is missing is counted": (
        (server(1, None, told(failure("a", "gone")), own="a", dropped=3),),
        [
            f"✗ trace {TRACE}  agent_run_error at agent",
            "├── agent_run_error at agent",
            "├── 1 failures are named, but no span tells of them",
            "└── 3 events of spans were dropped before they were stored",
        ],
    ),
    "a failure whose own event is gone": (
        (server(1, None, own="gone"),),
        [
            f"✗ trace {TRACE}  failed, but how is not known",
            "└── 1 failures are named, but no span tells of them",
        ],
    ),
    "a report that was cut on the way": (
        (client(1, None, relayed(failure("a")), attributes={"failure.omitted": True}),),
        [
            f"✓ trace {TRACE}  recovered from 1",
            "├── agent_run_error at agent  (recovered, known from a reply only)",
            "└── a report on the way had no room for everything",
        ],
    ),
}


@pytest.mark.parametrize(("spans", "lines"), TREES.values(), ids=TREES)
def test_tree(spans, lines):
    """A tree says what is known of each failure, in this form, and nothing of what is not."""
    assert drawn(only(*spans)) == lines


def test_what_did_not_lead_to_the_failure_is_dimmed():
    """On a terminal the chain of the own failure stands out, its root cause in red; all else is dim."""
    report = only(server(1, None, told(failure("a")), told(failure("x", kind="shutdown"), at=1), own="a"))
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200, highlight=False)
    console.print(tree_of(report, "trace"))
    _, own, other = console.file.getvalue().splitlines()
    assert "\x1b[1;31magent_run_error at agent" in own
    assert "\x1b[2;31mshutdown at agent" in other


def test_request_is_named_by_its_span():
    """By request, a tree is that of one server's span, and says in which trace it is."""
    head = drawn(only(server(1, None, told(failure("a")), own="a"), by="request"), by="request")[0]
    assert head == f"✗ request {1:016x}  agent_run_error at agent  trace {TRACE}"


def test_a_screenful_of_a_flood_is_shown():
    """Of any number of failures the chain is shown whole, with a screenful of the others and the count of the rest."""
    flood = [told(failure(f"x{number}", kind="shutdown"), at=number) for number in range(500)]
    chain = [told(failure(f"c{number}", f"c{number + 1}" if number < 99 else None)) for number in range(100)]
    lines = drawn(only(server(1, None, *flood, *chain, own="c0")))
    assert sum("agent_run_error" in line for line in lines[1:]) == 100
    assert sum("shutdown" in line for line in lines) == 0
    assert lines[-1] == "└── and 500 more failures"


def test_a_long_chain_does_not_run_off_the_screen():
    """Causes beyond a certain depth stand below each other, in their order."""
    chain = [told(failure(f"c{number}", f"c{number + 1}" if number < 99 else None)) for number in range(100)]
    lines = drawn(only(server(1, None, *chain, own="c0")))
    assert max(map(len, lines)) < 4 * (limits.TREE_DEPTH + 1) + 100
    assert len(lines) == 101


def test_a_long_reason_is_cut_with_a_mark():
    """A reason longer than two lines is cut, and says how much of it is missing."""
    long = failure("a", reason="x" * 2_000)
    line = drawn(only(server(1, None, told(long), own="a")))[1]
    assert re.search(r"x…\[\+\d+\]$", line)


HOSTILE = {
    "an escape sequence": ("\x1b]0;owned\x07\x1b[2Jbye", r"\x1b]0;owned\x07\x1b[2Jbye"),
    "one of eight bits": ("\x9b2J", r"\x9b2J"),
    "a line of its own": ("a\r\n✗ rollout r1  fine", "a  ✗ rollout r1  fine"),
    "a tab": ("a\tb", "a b"),
    "text turned round": ("abc\u202edcba", r"abc\u202edcba"),
    "a lone surrogate": ("\ud800", r"\ud800"),
    "markup of rich": ("[bold red]x[/]", "[bold red]x[/]"),
    "markup that is wrong": ("[/nothing]", "[/nothing]"),
    "an emoji made of several": ("👩\u200d🚀", "👩\u200d🚀"),
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=HOSTILE)
def test_text_from_elsewhere_stays_text(text, shown):
    """What a terminal would act on is written out; everything else is shown as it is."""
    assert plain(text) == shown


@given(texts(200, surrogates=True))
def test_no_text_controls_a_terminal(text):
    """No text leaves a control character, a separator of lines, or a mark of direction."""
    for character in plain(text):
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }


@given(texts(50), texts(50, min_size=1))
def test_no_field_brings_a_line_of_its_own(reason, rollout):
    """Whatever a reason and a rollout's id hold, a tree has one line for its head and one for each failure."""
    assert len(drawn(only(server(1, None, told(failure("a", reason=reason)), own="a", rollout=rollout)))) == 2


def test_no_id_controls_a_terminal():
    """The id of a trace, which anybody can have written, is only shown."""
    span = server(1, None, told(failure("a")), own="a", rollout="r7")
    for rollout in ("r7", None):
        attributes = {key: value for key, value in span.attributes.items() if rollout or value != "r7"}
        shown = drawn(only(replace(span, trace_id="\x1b]0;no\x07", attributes=attributes)))
        assert "trace \\x1b]0;no\\x07" in shown[0]


@given(call_trees())
def test_every_report_can_be_drawn(call):
    """Any report can be drawn by anything, with a line for each failure in it."""
    spans = list(call.spans())
    for by in ("trace", "request", "rollout"):
        for report in rebuild(spans, by=by):
            named = [line for line in drawn(report, by)[1:] if " at " in line]
            assert len(named) >= min(len(report.report.events), limits.TREE_EVENTS)
