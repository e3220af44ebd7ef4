"""The page of a run as a person uses it: looked at, searched, opened, by keyboard, in the dark and on paper."""

import pytest

from gym_failures.kinds import FailureBoundary
from tests.spans import client, failure, relayed, server, span, told

HOSTILE = "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">{{7*7}} & \u2028"
SECOND = 10**9
PAUSE = 1_000
"""A pause in typing after which the page has searched, by its own clock, in milliseconds."""


def rollout(number, *, kind="provider_unavailable", reason="the provider is away", recovered=False, at=0):
    """Return the spans of a rollout in which a model server fails the agent, or is forgiven."""
    base, name, trace = 100 * number, f"rollout-{number}", f"{number:032x}"
    when = (1_700_000_000 + at) * SECOND
    root = failure(f"root{number}", boundary=FailureBoundary.MODEL, kind=kind, reason=reason)
    top = failure(f"top{number}", root.event_id, kind="agent_run_error", reason="no answer")
    own = None if recovered else top.event_id
    events = [] if recovered else [told(top, at=when + SECOND)]
    return [
        span(base + 1, None, rollout=name, trace=trace, service="collection"),
        server(base + 2, base + 1, *events, own=own, rollout=name, trace=trace, service="agent"),
        client(base + 3, base + 2, relayed(root, at=when), rollout=name, trace=trace, service="agent"),
        server(
            base + 4,
            base + 3,
            told(root, at=when),
            own=root.event_id,
            rollout=name,
            trace=trace,
            service="model",
        ),
    ]


RUN = [
    *rollout(1),
    *rollout(2, kind="judge_failed", reason="a judge of few words", at=90),
    *rollout(3, recovered=True, at=200),
]


def open_first(page):
    """Open the first rollout that is listed, and wait until it is drawn."""
    page.locator("summary").first.click()
    page.wait_for_selector("#rollouts details[open] .failure")


def listed(page):
    """Return the rollouts that the page lists, by their names."""
    return page.locator("#rollouts .tag").all_text_contents()


def test_numbers_count_everything_once(opened):
    """The numbers of the page are those of `count`: five failures of three rollouts, three of them root causes."""
    page = opened(RUN)
    assert page.locator("#totals dd").all_text_contents() == ["2", "1", "5", "3", "3"]
    assert page.locator("#cells tbody tr").first.all_text_contents() == ["agent_run_error220"]
    assert page.locator("#chains tbody tr").count() == 2
    assert page.locator("#servers tbody tr").nth(1).inner_text().split() == ["agent", "2", "0", "200", "3", "1.5", "%"]


def test_a_cell_leads_to_its_rollouts(opened):
    """A cell of the table lists the rollouts with such a failure, those that recovered too, and is marked as chosen."""
    page = opened(RUN)
    cell = page.locator("#cells button[data-kind=provider_unavailable]")
    cell.click()
    assert listed(page) == ["rollout-1", "rollout-3"]
    assert cell.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("few WORDS", ["rollout-2"]),
        ("judge_failed agent", ["rollout-2"]),
        ("rollout-1", ["rollout-1"]),
        ("00000001", ["rollout-1"]),
        ("nothing like it", []),
    ],
)
def test_a_search_looks_at_all_that_is_said_of_a_rollout(opened, words, found):
    """Every word has to be in the id, the trace, a kind, a reason, an operation or a service; case does not matter."""
    page = opened(RUN)
    page.clock.install()
    page.fill("#search", words)
    page.clock.run_for(PAUSE)
    assert listed(page) == found


def test_a_tree_shows_the_root_cause_first(opened):
    """Opened, a rollout shows its root cause with the reason, and beneath it what that led to."""
    page = opened(RUN, jaeger="http://127.0.0.1:16686")
    open_first(page)
    tree = page.locator("#rollouts details").first
    assert tree.locator("> ul > li > .failure .kind").all_text_contents() == ["provider_unavailable"]
    assert tree.locator("> ul > li > ul .kind").all_text_contents() == ["agent_run_error"]
    assert tree.locator(".reason").all_text_contents() == ["the provider is away", "no answer"]
    assert tree.locator("a").get_attribute("href") == f"http://127.0.0.1:16686/trace/{1:032x}"


def test_all_of_it_by_keyboard(opened):
    """A slash leads to the search, and from there the keyboard reaches and opens the first rollout."""
    page = opened(RUN)
    page.clock.install()
    page.keyboard.press("/")
    page.keyboard.type("few")
    page.clock.run_for(PAUSE)
    assert listed(page) == ["rollout-2"]
    for _ in range(5):  # kind, boundary, outcome, clear, rollout
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rollouts details[open] .reason")
    assert page.locator("#search").input_value() == "few"


def test_hostile_text_stays_text(opened):
    """What a peer put into kind, reason or id is shown as it is, and nothing of it runs or is asked of the network."""
    page = opened(rollout(1, kind=f"x:{HOSTILE}", reason=HOSTILE))
    open_first(page)
    assert page.title() == "A run <b>of</b> mine"
    assert page.locator("#title").inner_text() == "A run <b>of</b> mine"
    assert page.locator(".reason").first.text_content() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def luminance(colour):
    """Return how light a CSS colour is, from 0 to 1 (WCAG 2.2, relative luminance)."""
    parts = [float(part) / 255 for part in colour.strip("rgb()").split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("selector", ["#cells th", "#cells td.cell button", ".quiet", "summary .mark", "#search"])
def test_it_can_be_read_in_light_and_dark(opened, scheme, selector):
    """Text has the contrast of 4.5 to 1 that WCAG 2.2 asks for (1.4.3), whatever the reader's colours are."""
    page = opened(RUN, color_scheme=scheme)
    text, ground = page.locator(selector).first.evaluate(
        """element => {
            const layers = [];
            for (let at = element; at; at = at.parentElement) layers.push(getComputedStyle(at).backgroundColor);
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            for (const layer of layers.reverse()) { canvas.fillStyle = layer; canvas.fillRect(0, 0, 1, 1); }
            const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
            return [getComputedStyle(element).color, `rgb(${r}, ${g}, ${b})`];
        }"""
    )
    light, dark = sorted((luminance(text), luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
    assert (luminance(text) < luminance(ground)) == (scheme == "light")


def test_on_paper_trees_are_open(opened):
    """A printed page shows the trees of what is listed, and no controls that paper does not have."""
    page = opened(RUN)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#rollouts .reason").first.is_visible()
    assert not page.locator("#search").is_visible()


def test_a_page_without_room_says_what_it_left_out(opened):
    """What does not fit is counted in all numbers and named as left out (durabletask-python#99)."""
    page = opened([part for number in range(1, 40) for part in rollout(number)], room=4_000)
    shown = len(listed(page))
    assert 0 < shown < 39
    assert f"{39 - shown} rollouts are not listed" in page.locator("#notes").inner_text()
    assert page.locator("#totals dd").first.inner_text() == "39"


def test_a_run_in_which_nothing_failed(opened):
    """A page of nothing says so and has no fault."""
    page = opened([span(1, None, rollout="r", service="agent")])
    assert page.locator("#totals dd").all_text_contents() == ["0"] * 5
    assert page.locator("#found").inner_text() == "Nothing fits."


def test_a_long_chain_is_drawn(opened):
    """A chain of 500 causes opens as one tree, however deep."""
    events = [failure(f"e{number}", f"e{number - 1}" if number else None) for number in range(500)]
    page = opened([server(1, None, *map(told, events), own="e499", rollout="deep", service="agent")])
    open_first(page)
    assert page.locator("#rollouts .failure").count() == 500
    assert page.locator("#chains tbody tr td").nth(1).inner_text().endswith("488 more")


def test_more_is_drawn_when_it_is_asked_for(opened):
    """Of many rollouts a hundred are drawn at once, and each press of the button draws as many more."""
    page = opened([part for number in range(1, 251) for part in rollout(number)])
    for expected in (100, 200, 250):
        assert len(listed(page)) == expected
        if page.locator("#more").is_visible():
            page.click("#more")
    assert not page.locator("#more").is_visible()


def test_what_is_not_listed_of_a_rollout_can_be_found(opened):
    """A failure that a long rollout does not list still leads from its cell to the rollout, which counts it."""
    events = [failure(f"e{number}", kind="agent_timeout") for number in range(197)]
    page = opened([server(1, None, *map(told, events), told(failure("last", kind="judge_failed")), rollout="long")])
    page.locator("#cells button[data-kind=judge_failed]").click()
    assert listed(page) == ["long"]
    assert page.locator("summary").first.inner_text().endswith("recovered from 198")


def test_a_time_that_is_no_date(opened):
    """One time out of all bounds costs itself and not the page."""
    page = opened([*RUN, *rollout(7, at=10**12)])
    assert len(listed(page)) == 3
