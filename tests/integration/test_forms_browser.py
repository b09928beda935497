"""The page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser import (
    DEADLINE_MS,
    Watched,
    chromium,
    chromium_binary,
)
from tests.support.hostile import hostile_timeline, long_run, revenue_with_findings
from tests.support.require import require
from threadbus.replay import Timeline, fold
from threadbus.replay.forms import FORMS, FormOptions

VIEWS = (
    "Overview",
    "Conversation",
    "Timeline",
    "Tree",
    "Plans",
    "Votes",
    "Artifacts",
    "Findings",
)
EVENTS = 10_000

Opener = Callable[[str], Watched]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser for all tests of this module."""
    binary = chromium_binary()
    require("Chromium (apt-get install chromium)", binary)
    assert binary is not None
    expect.set_options(timeout=DEADLINE_MS)
    with chromium(binary, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of runs: one as it should be, one that attacks, two that are long."""
    folder = tmp_path_factory.mktemp("pages")
    runs = {
        "revenue": revenue_with_findings(),
        "hostile": hostile_timeline(),
        "middle": fold(long_run(600).log),
        "long": fold(long_run(EVENTS).log),
    }
    found: dict[str, Path] = {}
    for name, timeline in runs.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(written(timeline, "html"), encoding="utf-8")
    return found


@pytest.fixture
def visit(context: BrowserContext, files: dict[str, Path]) -> Iterator[Opener]:
    """Opens a page by the name of its run; what it did wrong fails the test at the end."""
    pages: list[Watched] = []

    def go(name: str) -> Watched:
        name, _, hash_part = name.partition("#")
        watched = Watched(context.new_page())
        pages.append(watched)
        address = files[name].as_uri()
        watched.page.goto(f"{address}#{hash_part}" if hash_part else address)
        return watched

    yield go
    for watched in pages:
        watched.page.close()
        assert watched.complaints == []
        assert {address.split("#")[0] for address in watched.requests} <= {
            path.as_uri() for path in files.values()
        }


def written(timeline: Timeline, form: str) -> str:
    """Return a run in a form."""
    return "".join(FORMS[form](timeline, FormOptions(now=timeline.last_at)))


def view(page: Page, name: str) -> None:
    """Open a view by its key."""
    page.keyboard.press(str(VIEWS.index(name) + 1))
    expect(page.get_by_role("tabpanel", name=name)).to_be_visible()


@pytest.mark.parametrize("run", ["revenue", "hostile"])
def test_every_view_opens_by_its_key(visit: Opener, run: str) -> None:
    """The digits open the views, each draws something, and nothing is loaded or logged."""
    page = visit(run).page

    for number, name in enumerate(VIEWS, 1):
        page.keyboard.press(str(number))
        tab = page.get_by_role("tab", name=name)
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tabpanel", name=name)).not_to_be_empty()


def test_a_stranger_sees_what_happened_at_once(visit: Opener) -> None:
    """Question, outcome, answer, findings and agents are on the first screen."""
    page = visit("revenue").page

    expect(page.locator("#status")).to_have_text("completed")
    expect(page.locator("h1")).to_have_text("Which revenue figure is right?")
    panel = page.get_by_role("tabpanel")
    for text in ("4,120,000, the figure in sales.csv.", "violation D0", "suspect, 70 of 100"):
        expect(panel.get_by_text(text).first).to_be_in_viewport()
    label = re.compile("planner worked .* in 2 turns")
    expect(page.locator("canvas")).to_have_attribute("aria-label", label)


def test_tabs_are_moved_through_by_arrow_keys(visit: Opener) -> None:
    """As in any list of tabs; Home and End are its ends."""
    page = visit("revenue").page
    page.get_by_role("tab", name="Overview").focus()

    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Conversation")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Findings")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")


def test_steps_are_chosen_by_keys_and_shown_in_full(visit: Opener) -> None:
    """j and k go from step to step; the address then links to the step, and Esc lets it go."""
    page = visit("revenue").page
    view(page, "Conversation")

    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    detail = page.get_by_role("complementary", name="The chosen step")
    expect(detail).to_contain_text("Which revenue figure is right: sales.csv or report.docx?")
    expect(page).to_have_url(re.compile("#seq-3$"))
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()


def test_a_link_leads_to_its_step(visit: Opener) -> None:
    """A deep link opens the step; its cause is a click away."""
    page = visit("revenue#seq-21").page
    detail = page.get_by_role("complementary", name="The chosen step")

    expect(detail).to_contain_text("tool read_document")
    expect(page.locator("article.on")).to_contain_text("read_document")
    detail.get_by_role("button", name="#15 planner assigns document").click()
    expect(detail).to_contain_text("Read the total from report.docx")


def test_search_finds_and_marks(visit: Opener) -> None:
    """The steps that have the words are left, with the words marked; Esc brings the rest back."""
    page = visit("revenue").page
    page.keyboard.press("/")
    page.keyboard.type("KEYERROR")

    rows = page.locator("article.row")
    expect(rows).to_have_count(1)
    expect(rows.locator("mark")).to_have_text("KeyError")
    expect(page.get_by_role("status")).to_have_text("1 step found")
    page.keyboard.press("Escape")
    expect(page.locator("article.row mark")).to_have_count(0)
    expect(rows.nth(5)).to_be_visible()


def test_filters_leave_out(visit: Opener) -> None:
    """By agent, by kind and by thread; each says whether it is on."""
    page = visit("revenue").page
    view(page, "Conversation")
    filters = page.get_by_role("group", name="Filters")
    rows = page.locator("article.row")
    everything = rows.count()

    agent = filters.get_by_role("button", name="planner")
    agent.click()
    expect(filters.get_by_role("button", name="planner")).to_have_attribute("aria-pressed", "false")
    expect(rows.filter(has_text=re.compile("^[^ ]*planner"))).to_have_count(0)
    filters.get_by_role("button", name="planner").click()
    expect(rows).to_have_count(everything)
    filters.get_by_role("button", name="model calls").click()
    expect(rows.filter(has_text="model small-1")).to_have_count(0)
    filters.get_by_role("combobox", name="Thread").select_option(label="Check numbers")
    expect(rows.filter(has_text="read_document")).to_have_count(0)
    expect(rows.filter(has_text="before returns").first).to_be_visible()


def test_the_timeline_is_walked_by_keys(visit: Opener) -> None:
    """Arrows choose steps of the same agent and of the next one; plus and minus zoom."""
    page = visit("revenue#seq-9").page
    page.keyboard.press("3")
    detail = page.get_by_role("complementary", name="The chosen step")
    page.locator("canvas").focus()

    page.keyboard.press("ArrowRight")
    expect(detail).to_contain_text("planner plans 2 steps")
    page.keyboard.press("ArrowDown")
    expect(detail.get_by_role("heading")).to_contain_text("document")
    for key in ("+", "+", "-", "0"):
        page.keyboard.press(key)
    expect(page.locator("canvas")).to_be_focused()


def test_the_tree_is_walked_and_folded_by_keys(visit: Opener) -> None:
    """Arrows go from row to row, fold and unfold; a step that is reached is shown in full."""
    page = visit("long").page
    view(page, "Tree")
    rows = page.get_by_role("treeitem")
    row = page.locator(".node.on")

    page.keyboard.press("ArrowDown")
    expect(row).to_contain_text("thread main")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(row).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(row).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    detail = page.get_by_role("complementary", name="The chosen step")
    expect(detail).to_contain_text("model small-1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(row).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("G")
    expect(row).to_be_in_viewport()
    assert rows.count() < 1_000


def test_dark_and_light(visit: Opener) -> None:
    """What the system prefers at first, and then what the key says."""
    page = visit("revenue").page
    colors = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colors)

    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(colors)
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(colors) == light != dark


def test_help_lists_the_keys(visit: Opener) -> None:
    """It opens by a key, and keys do nothing else while it is open."""
    page = visit("revenue").page
    page.keyboard.press("?")

    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("next finding")
    page.keyboard.press("4")
    expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_everything_to_press_has_a_name(visit: Opener) -> None:
    """A screen reader can say what each button, field and tab is."""
    page = visit("revenue").page
    for number in range(1, len(VIEWS) + 1):
        page.keyboard.press(str(number))
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, [role=tab]")].filter(
              (one) => !(one.textContent.trim() || one.getAttribute("aria-label")
                || (one.labels && one.labels.length))).length"""
        )
        assert nameless == 0


def test_hostile_text_is_text(visit: Opener) -> None:
    """It is shown as it was written, runs nothing, links to nothing, and reorders nothing."""
    watched = visit("hostile")
    page = watched.page

    for name in VIEWS:
        view(page, name)
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
        assert page.evaluate("[...document.links].map((link) => link.getAttribute('href'))") == [
            "#view"
        ]
        shown = page.evaluate("document.body.innerText")
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", shown)
    view(page, "Conversation")
    expect(page.get_by_text("<svg/onload=window.pwned=4>").first).to_be_visible()
    expect(page.get_by_text("\\u202egnp.exe").first).to_be_attached()


def test_the_policy_stops_what_the_page_does_not_hold(
    context: BrowserContext, files: dict[str, Path]
) -> None:
    """Were a text of a run to become an element after all, it could neither run nor load."""
    page = context.new_page()
    loaded: list[str] = []
    page.on("requestfinished", lambda request: loaded.append(request.url))
    page.goto(files["revenue"].as_uri())
    blocked = page.evaluate(
        """() => new Promise((done) => {
          const found = [];
          document.addEventListener("securitypolicyviolation", (event) => {
            found.push(event.effectiveDirective);
            if (found.length === 3) done(found);
          });
          const script = document.createElement("script");
          script.textContent = "window.pwned = 1";
          const image = document.createElement("img");
          image.src = "https://tracker.invalid/p.png";
          const button = document.createElement("button");
          button.setAttribute("onclick", "window.pwned = 2");
          document.body.append(script, image, button);
          button.click();
        })"""
    )

    assert sorted(blocked) == ["img-src", "script-src-attr", "script-src-elem"]
    assert page.evaluate("window.pwned") is None
    assert loaded == [files["revenue"].as_uri()]
    page.close()


def test_a_long_run_can_be_walked_and_searched(visit: Opener) -> None:
    """With 10,000 events the last step is a key away, and few rows exist at any time."""
    page = visit("long").page
    view(page, "Conversation")

    page.keyboard.press("G")
    expect(page.locator("article.on")).to_be_in_viewport()
    expect(page.locator("article.on")).to_contain_text("needle-")
    assert page.locator("article.row").count() < 1_000
    page.keyboard.press("g")
    expect(page.locator("article.on")).to_contain_text("asks planner")
    page.locator("#view").hover()
    for _ in range(30):
        page.mouse.wheel(0, 4_000)
    expect(page.locator("article.row").first).not_to_contain_text("asks planner")
    assert page.locator("article.row").count() < 1_000
    page.keyboard.press("/")
    page.keyboard.type("needle-1234.")
    expect(page.locator("article.row")).to_have_count(1)
    for name in ("Timeline", "Tree"):
        page.keyboard.press("Escape")
        view(page, name)


def test_a_printed_page_is_whole(visit: Opener) -> None:
    """On paper there are all rows of a view, and no buttons."""
    page = visit("middle").page
    view(page, "Conversation")
    steps = page.evaluate("JSON.parse(document.getElementById('run').textContent).steps.length")
    assert page.locator("article.row").count() < steps
    page.pdf()
    page.emulate_media(media="print")

    expect(page.get_by_role("tab", name="Tree")).to_be_hidden()
    assert page.locator("article.row").count() == steps
    assert page.evaluate("getComputedStyle(document.getElementById('view')).overflow") == "visible"
