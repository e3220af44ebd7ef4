"""`gym-failures report`: the file that it writes. What a browser makes of it is tested in tests/browser."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.cli.app import app
from gym_failures.cli.page import contents, document
from gym_failures.reading import rebuild
from tests.spans import failure, server, told
from tests.strategies import texts

HOUR = 3_600 * 10**9


def failed(number, reason="no", at=0, **said):
    """Return the span of a rollout that failed."""
    event = failure(f"e{number}", reason=reason)
    trace = f"{number + 1:032x}"
    return server(number, None, told(event, at=at), own=event.event_id, rollout=f"r{number}", trace=trace, **said)


def data_of(text):
    """Return the data in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def made(spans, **said):
    """Return the contents of the page of some spans."""
    return contents(rebuild(spans, by="rollout"), spans=len(spans), skipped=0, **said)


def test_the_command_writes_a_page(command, write, tmp_path):
    """The page is where it was asked for; what was written is said on standard error, and nothing else is."""
    page = tmp_path / "page.html"
    ended = command(
        "report", "-o", page, "--title", "Monday", "--links", "http://h:16686/", write(failed(1), failed(2))
    )
    assert (ended.status, ended.output) == (0, "")
    assert ended.errors.strip() == f"wrote {page}: 2 failed, 0 recovered"
    data = data_of(page.read_text("utf-8"))
    assert (data["title"], data["jaeger"], data["totals"]["failed"]) == ("Monday", "http://h:16686", 2)


def test_requests_of_good_traces_count_too(command, write, tmp_path):
    """The failing share of a server is of all its requests, those of traces in which nothing failed too."""
    page = tmp_path / "page.html"
    good = [server(number, None, trace=f"{number:032x}", service="agent") for number in range(10, 19)]
    command("report", "-o", page, write(failed(1, service="agent"), *good))
    assert data_of(page.read_text("utf-8"))["servers"] == [["agent", 1, 1, 10, 1]]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "host:16686", "ftp://host"])
def test_links_go_to_pages_only(command, write, url):
    """A URL that is none of HTTP is refused, because a reader would click on it."""
    ended = command("report", "--links", url, write(failed(1)))
    assert ended.status == 2
    assert "http://" in ended.errors


def test_a_folder_that_is_not_there(write, tmp_path):
    """A page that cannot be written is an error that names the file."""
    with pytest.raises(FileNotFoundError):
        app()(["report", "-o", str(tmp_path / "no" / "page.html"), str(write(failed(1)))], standalone_mode=False)


@given(texts(limits.REASON_LENGTH))
def test_no_text_ends_the_data(text):
    """Whatever a peer wrote comes back from the page as it was, and ends no element of it."""
    page = document(made([failed(1, text)]), title=text, made="now")
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(page)["title"] == text


def test_only_the_program_of_the_page_may_run():
    """The page allows one script, by the hash of what it holds, and loads nothing."""
    page = document(made([failed(1)]), title="t", made="now")
    program = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in page
    assert not re.search(r"(?:src|href)=", page.replace("default-src", ""))


def test_what_there_is_no_room_for_is_counted():
    """Rollouts are listed while there is room, and those that are not are counted; the tables count all."""
    spans = [failed(number, "x" * 200 + str(number)) for number in range(200)]
    page = made(spans, room=10_000)
    assert 0 < len(page["rollouts"]) == 200 - page["left_out"] < 200
    assert page["totals"]["failed"] == 200
    assert page["cells"] == [["agent_run_error", "agent", 200, 200]]
    assert len(json.dumps(page["rollouts"])) + len(json.dumps(page["texts"])) < 14_000


def test_reasons_make_room_first():
    """Reasons that would take more than half of the room are cut, so that more rollouts are listed."""
    spans = [failed(number, str(number) + "x" * 300) for number in range(100)]
    assert made(spans)["reason_length"] == limits.PAGE_REASON
    assert made(spans, room=20_000)["reason_length"] < 100


@given(st.lists(st.integers(min_value=1, max_value=limits.LATEST_TIME), min_size=1, max_size=20))
def test_every_time_has_a_column(times):
    """Each failure stands in one column, and no chart has more columns than there is room for."""
    chart = made([failed(number, at=at) for number, at in enumerate(times)])["times"]
    [(_, counts)] = chart["kinds"]
    assert sum(counts) == len(times)
    assert len(counts) <= limits.PAGE_COLUMNS
    assert chart["start"] <= min(times) // 10**6 < chart["start"] + chart["width"]


def test_no_times_no_chart():
    """Where no time is known there is no chart, rather than one of 1970."""
    assert made([failed(1)])["times"] is None


def test_kinds_without_number_are_summed_up():
    """Of 10,000 kinds that a peer invents the tables name the most frequent (opentelemetry-python#2700)."""
    events = [failure(f"e{number}", kind=f"x:kind{number}") for number in range(1_000)]
    page = made([server(1, None, *map(told, events), own="e0", rollout="r"), failed(5_000)])
    assert len(page["cells"]) == limits.PAGE_NAMES + 1
    assert page["other_kinds"] == f"{1_001 - limits.PAGE_NAMES} other kinds"
    assert sum(row[2] for row in page["cells"]) == 1_001


def test_services_without_number_are_summed_up():
    """Of many services the table names those with the most failures, and sums up the others."""
    page = made([failed(number, service=f"s{number}") for number in range(300)])
    assert page["servers"][-1] == ["100 other services", 100, 100, None, None]


def test_a_time_that_is_no_date_has_no_column():
    """A time that no span can have is not known, and the chart does not reach for it."""
    page = made([failed(1, at=HOUR), failed(2, at=limits.LATEST_TIME + 1)])
    assert sum(page["times"]["kinds"][0][1]) == 1
