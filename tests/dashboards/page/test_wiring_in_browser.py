"""Map of the wiring: supplies, plugs, buses and GPUs with their loads, readable on one screen."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from dashboards.page.app import echarts_dir
from physics.breakers import BreakerCurve
from physics.wiring import Branch, Bus, MainsFeed, Origin, Plugs, Redundancy, Shelf, WiredSupply, Wiring
from telemetry.clock import NS_PER_S, SystemClock
from tests.browser import look
from tests.dashboards.fakes import QUIET, Story
from tests.dashboards.many_rails import ManyRails, Rails
from tests.dashboards.page.browsing import complaints, open_page, page_of, see, text, wait

pytestmark = pytest.mark.integration

HALF_PIXEL = 0.5
# Every line of text in the panel, with its rectangle; and the rectangle of the box that it is in.
LINES = """
const panel = document.querySelector('#wiring');
const walk = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
const found = [];
while (walk.nextNode()) {
  const node = walk.currentNode;
  if (!node.data.trim() || node.parentElement.closest('.unseen')) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const cell = node.parentElement.closest('td, th, li, p, h2, h3, div').getBoundingClientRect();
  for (const box of [...range.getClientRects()].filter(({ width }) => width > 0)) {
    const [left, right, top, bottom] = [box.left, box.right, box.top, box.bottom];
    found.push({ text: node.data, left, right, top, bottom, cell: [cell.left, cell.right] });
  }
}
return found;
"""
# Elements of the panel whose content is wider than they are.
CLIPPED = """
return [...document.querySelectorAll('#wiring *')]
  .filter((one) => one.clientWidth && !one.matches('.unseen') && one.scrollWidth > one.clientWidth + 1
    && getComputedStyle(one).overflow !== 'visible')
  .map((one) => one.outerHTML.slice(0, 80));
"""
# The contrast between each text of the panel and what is behind it (WCAG 2.2, relative luminance).
CONTRAST = """
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgb = (colour) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
const behind = (one) => {
  const own = rgb(getComputedStyle(one).backgroundColor);
  return own[3] > 0 || !one.parentElement ? own : behind(one.parentElement);
};
const texts = [...document.querySelectorAll('#wiring :is(p, li, td, th, h3, span, strong)')];
return texts.filter((one) => one.innerText).map((one) => {
  const [a, b] = [luminance(rgb(getComputedStyle(one).color)), luminance(behind(one))].sort((x, y) => y - x);
  return { text: one.innerText.slice(0, 40), contrast: (a + 0.05) / (b + 0.05) };
});
"""
PANEL = "const box = document.querySelector('#wiring').getBoundingClientRect(); return [box.width, box.height]"


@contextmanager
def page_with(
    browser: WebDriver, *rails: Rails, gpus: int, described: Wiring | None = None, story: Story = QUIET
) -> Iterator[ManyRails]:
    clock = SystemClock()
    started_ns = clock.utc_ns() - 60 * NS_PER_S
    source = ManyRails(
        clock=clock, started_ns=started_ns, rails=rails, n_gpus=gpus, described=described, quiet=True, story=story
    )
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#wiring .gpu", "\u202fW")
        yield source


def rich(count: int, gpus: int, *, nominal_v: float = 54.0, n_buses: int = 1) -> Wiring:
    """Return a wiring in which everything is described, every second supply with other plugs."""
    supplies = tuple(
        WiredSupply(
            name=f"psu{number}",
            sensors=(f"psu{number}",),
            rated_w=3300.0,
            nominal_v=nominal_v,
            feed="AB"[number * 2 // count],
            shelf=f"shelf{number * 2 // count}",
            inlet=Plugs(name="C19", rating_a=16.0),
            plugs=(Plugs(name="lug-M8", rating_a=150.0), Plugs(name="XT60", count=4 + number % 2, rating_a=30.0)),
        )
        for number in range(count)
    )
    buses = []
    for place in range(n_buses):
        own = [str(gpu) for gpu in range(gpus) if gpu * n_buses // gpus == place]
        branch = Branch(
            gpus=tuple(own),
            plugs=(Plugs(name="OCP busbar clip", count=2, rating_a=100.0),),
            plugs_each=(Plugs(name="8-pin PCIe", count=2, rating_a=13.5),),
        )
        buses.append(
            Bus(
                name=f"board {place}",
                nominal_v=nominal_v,
                supplies=tuple(one.name for number, one in enumerate(supplies) if number * n_buses // count == place),
                branches=(branch, Branch(board="mainboard and network", fans=True)),
                redundancy=Redundancy.N_PLUS_N,
            )
        )
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=supplies,
        buses=tuple(buses),
        feeds=tuple(MainsFeed(name=name, nominal_v=230.0, breaker_a=63.0, curve=BreakerCurve.C) for name in "AB"),
        shelves=tuple(Shelf(name=f"shelf{place}", rated_w=33000.0, feed="AB"[place]) for place in range(2)),
    )


def plugged(*, count: int, board: str = "") -> Wiring:
    """Return two supplies of 12 V, the first through so many XT60 plugs, and four GPUs."""
    plugs = (Plugs(name="XT60", count=count, rating_a=30.0),)
    supplies = (
        WiredSupply(name="psu0", sensors=("psu0",), rated_w=4000.0, plugs=plugs),
        WiredSupply(name="psu1", sensors=("psu1",), rated_w=4000.0),
    )
    bus = Bus(name="main", nominal_v=12.0, supplies=("psu0", "psu1"), branches=(Branch(gpus=None, board=board),))
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=(bus,))


def long_names() -> Wiring:
    """Return a 54 V bus, a converter to 12 V and a tied bus whose names are as long as operators make them."""
    plugs = (Plugs(name="panel mount connector of the left power distribution board", rating_a=90.0),)
    supplies = (
        WiredSupply(
            name="rack-12-shelf-left-rectifier-1",
            sensors=("psu0",),
            rated_w=3300.0,
            feed="PDU-A-outlet-14",
            plugs=plugs,
        ),
        WiredSupply(name="psu1", sensors=("psu1",), feed="PDU-A-outlet-14"),
        WiredSupply(
            name="intermediate-bus-converter-0", sensors=(), from_bus="main-busbar-of-the-upper-tray", nominal_v=12.0
        ),
    )
    upper = Bus(
        name="main-busbar-of-the-upper-tray",
        nominal_v=54.0,
        supplies=("rack-12-shelf-left-rectifier-1", "psu1"),
        branches=(Branch(gpus=("0", "1", "2", "9"), plugs=plugs, plugs_each=plugs),),
        joins=("lower",),
    )
    board = Branch(board="mainboard_network_and_storage_backplane", fans=True, plugs=plugs)
    lower = Bus(name="lower", nominal_v=12.0, supplies=("intermediate-bus-converter-0",), branches=(board,))
    feed = MainsFeed(name="PDU-A-outlet-14", nominal_v=208.0, breaker_a=30.0)
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=(upper, lower), feeds=(feed,))


def check_readable(browser: WebDriver) -> None:
    """Check that no text of the panel is clipped, leaves its box, or covers another."""
    found: list[dict[str, Any]] = browser.execute_script(LINES)
    assert len(found) > 10
    for one in found:
        left, right = one["cell"]
        assert left - HALF_PIXEL <= one["left"] < one["right"] <= right + HALF_PIXEL, one
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert apart(one, other), (one, other)
    assert browser.execute_script(CLIPPED) == []


def apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if two lines do not cover each other; a line has a margin of two pixels above and below."""
    across = one["right"] <= other["left"] + HALF_PIXEL or other["right"] <= one["left"] + HALF_PIXEL
    return bool(across or one["bottom"] <= other["top"] + 4 or other["bottom"] <= one["top"] + 4)


def texts(browser: WebDriver, selector: str) -> list[str]:
    """Return the shown texts in the order of the page, read in one step: the page writes new values at any time."""
    script = "return [...document.querySelectorAll(arguments[0])].map((item) => item.innerText)"
    found: list[str] = browser.execute_script(script, selector)
    return found


def numbers(texts: Sequence[str]) -> list[float]:
    """Return the percentages in some texts."""
    return [float(one.partition("%")[0].split()[-1]) for one in texts]


def test_a_node_without_a_description_shows_the_inferred_wiring_and_what_is_unknown(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6), gpus=8):
        see(browser, "#wiring", "Inferred from nominal voltages")
        assert [item.text for item in browser.find_elements(By.CSS_SELECTOR, "#wiring .bus h3")] == ["54\u202fV bus"]
        assert len(browser.find_elements(By.CSS_SELECTOR, "#wiring .inputs tbody tr")) == 6
        assert len(browser.find_elements(By.CSS_SELECTOR, "#wiring .gpu")) == 8
        see(browser, "#wiring .unknowns", "rating of PSUs 0-5")
        see(browser, "#wiring .unknowns", "feeds, breakers, plugs and redundancy")
        assert browser.find_elements(By.CSS_SELECTOR, "#wiring .load") == []
        assert complaints(browser) == []


def test_supplies_show_volts_amperes_and_watts_and_the_bus_its_lowest_voltage(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=2), gpus=4):
        wait(browser, lambda shown: "unknown" not in text(shown, "#wiring .wired"))
        cells = texts(browser, "#wiring .inputs tbody tr:first-child td")
        volts, amps, watts = (float(cell.split("\u202f")[0]) for cell in cells)
        assert 53 < volts < 54
        assert watts == pytest.approx(volts * amps, rel=0.02)
        assert "lowest 51." in text(browser, "#wiring .bus")
        assert "above limit" in text(browser, "#wiring .bus .margin")


def test_supplies_that_a_board_controller_reports_every_ten_seconds_keep_their_values(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=2, reported=True), gpus=4):
        see(browser, "#wiring .inputs tbody tr:first-child", "W")
        for _ in range(4):
            threading.Event().wait(1.0)
            assert "unknown" not in text(browser, "#wiring .inputs")


def test_a_bus_below_its_limit_is_marked_by_text_and_colour(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=2, sag_ratio=0.06), gpus=4):
        see(browser, "#wiring .bus.alarming .margin", "below limit")


def test_a_plug_over_its_rating_is_named_first_and_marked_by_text_and_colour(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=12.0, count=2), gpus=4, described=plugged(count=2)):
        see(browser, "#wiring .nearest li:first-child.over", "2x XT60 of PSU 0: ")
        assert text(browser, "#wiring .nearest li:first-child").endswith("%, over its rating")
        see(browser, "#wiring .load.over", "% of 2x XT60, over its rating")
        others = browser.find_elements(By.CSS_SELECTOR, "#wiring .inputs tbody tr:last-child .load.over")
        assert others == []
        listed = browser.find_elements(By.CSS_SELECTOR, "#wiring .nearest li")
        over, normal = (item.value_of_css_property("color") for item in listed[:2])
        assert over != normal


def test_the_loads_nearest_to_their_ratings_come_first(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6), gpus=8, described=rich(6, 8)):
        wait(browser, lambda shown: len(shown.find_elements(By.CSS_SELECTOR, "#wiring .nearest li")) == 3)
        read = texts(browser, "#wiring :is(.nearest li, td.load)")
        shares, every = numbers(read[:3]), numbers(read)
        assert shares[0] >= max(every) - 2  # the choice is kept for 5 s
        assert shares[2] >= min(every)


def test_feeds_shelves_plugs_and_what_else_a_branch_feeds_are_named(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6), gpus=8, described=rich(6, 8)):
        see(browser, "#wiring .source", "Feed A 230\u202fV, breaker 63\u202fA curve C: at least ")
        see(browser, "#wiring .source", "Shelf shelf1 33000\u202fW: ")
        way = "in C19 (16\u202fA), out lug-M8 (150\u202fA) > {} ({}\u202fA)"
        see(browser, "#wiring .way", f"PSUs 0, 2: {way.format('4x XT60', 120)}")
        see(browser, "#wiring .way", f"PSU 1: {way.format('5x XT60', 150)}")
        see(browser, "#wiring .branches p", "2x OCP busbar clip: ")
        see(browser, "#wiring .branches p", "each GPU through 2x 8-pin PCIe (27\u202fA)")
        see(browser, "#wiring .ends", "mainboard and network, fans")
        see(browser, "#wiring .bus", "N+N")
        see(browser, "#wiring", "As described under topology")


def test_supplies_with_equal_plugs_name_them_once(browser: WebDriver) -> None:
    plugs = (Plugs(name="C19", rating_a=16.0),)
    alike = tuple(WiredSupply(name=f"psu{n}", sensors=(f"psu{n}",), plugs=plugs) for n in range(4))
    bus = Bus(name="main", nominal_v=54.0, supplies=tuple(one.name for one in alike), branches=(Branch(gpus=None),))
    described = Wiring(origin=Origin.CONFIGURED, supplies=alike, buses=(bus,))
    with page_with(browser, Rails(nominal_v=54.0, count=4), gpus=4, described=described):
        see(browser, "#wiring .way", "each out C19 (16\u202fA)")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#wiring .way")) == 1


def test_two_supplies_with_different_plugs_name_them_below_their_own_row(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=12.0, count=2), gpus=4, described=plugged(count=3)):
        see(browser, "#wiring tr:first-child + .way", "out 3x XT60 (90\u202fA)")


def test_a_board_on_the_branch_leaves_the_load_of_its_plugs_open(browser: WebDriver) -> None:
    described = plugged(count=9, board="mainboard")
    with page_with(browser, Rails(nominal_v=12.0, count=2), gpus=4, described=described):
        see(browser, "#wiring .ends", "mainboard")
        assert browser.find_elements(By.CSS_SELECTOR, "#wiring .branches p") == []


def test_two_buses_have_their_own_supplies_and_gpus(browser: WebDriver) -> None:
    buses = (Rails(nominal_v=54.0, count=3, gpus=(0, 4)), Rails(nominal_v=54.0, count=3, gpus=(4, 8)))
    with page_with(browser, *buses, gpus=8):
        see(browser, "#wiring", "From the edges of the recording")
        first, second = browser.find_elements(By.CSS_SELECTOR, "#wiring .wired")
        assert "PSU 2" in first.text
        assert "GPU 3" in first.text
        assert "GPU 4" not in first.text
        assert "PSU 3" in second.text
        assert "GPU 7" in second.text


def test_a_lost_reading_is_unknown_and_a_described_supply_without_a_sensor_is_not_measured(browser: WebDriver) -> None:
    described = plugged(count=2)
    with page_with(browser, Rails(nominal_v=12.0, count=1, lost_s=0), gpus=4, described=described):
        see(browser, "#wiring .inputs tbody tr:first-child", "unknown 0.0\u202fA unknown")
        see(browser, "#wiring .inputs tr:last-child td.unknown", "not measured, rated 4000\u202fW")
        see(browser, "#wiring .unknowns", "values of PSU 1: described and not measured")


def test_what_is_measured_and_not_described_is_named(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=12.0, count=3), gpus=4, described=plugged(count=2)):
        see(browser, "#wiring", "On no bus that is known: PSU 2")


@pytest.mark.parametrize("width", [1280, 1880, 390])
@pytest.mark.parametrize(("count", "gpus", "n_buses"), [(2, 4, 1), (6, 8, 1), (6, 8, 2), (16, 16, 1), (16, 16, 4)])
def test_the_map_is_readable_on_one_screen(browser: WebDriver, count: int, gpus: int, n_buses: int, width: int) -> None:
    look(browser, width, 800)
    described = rich(count, gpus, n_buses=n_buses)
    with page_with(browser, Rails(nominal_v=54.0, count=count), gpus=gpus, described=described):
        wait(browser, lambda shown: "unknown" not in text(shown, "#wiring .wired"))
        check_readable(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        if width >= 1280:
            assert browser.execute_script(PANEL)[1] <= 800


@pytest.mark.parametrize("width", [1880, 1280, 1021, 820, 640, 390])
def test_long_names_wrap_and_cover_nothing(browser: WebDriver, width: int) -> None:
    look(browser, width, 800)
    with page_with(browser, Rails(nominal_v=54.0, count=3), gpus=4, described=long_names()):
        see(browser, "#wiring .bus", "tied to lower")
        see(browser, "#wiring .source", "From bus main-busbar-of-the-upper-tray")
        see(browser, "#wiring .branches", "intermediate-bus-converter-0 to bus lower")
        see(browser, "#wiring .ends", "GPU 9 not found")
        see(browser, "#wiring", "On no bus that is known: GPU 3, PSU 2")
        check_readable(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_a_plug_over_its_rating_is_readable(browser: WebDriver, width: int) -> None:
    look(browser, width, 800)
    with page_with(browser, Rails(nominal_v=12.0, count=2), gpus=4, described=plugged(count=1)):
        see(browser, "#wiring .load.over", "over its rating")
        check_readable(browser)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_worst_stage_of_converters_in_a_row_is_named(browser: WebDriver, width: int) -> None:
    look(browser, width, 800)
    main, low = ("psu0", "psu1"), ("psu2", "psu3")
    described = Wiring(
        origin=Origin.CONFIGURED,
        supplies=tuple(
            WiredSupply(name=name, sensors=(name,), nominal_v=54.0 if name in main else 12.0, from_bus=bus)
            for names, bus in ((main, ""), (low, "main"))
            for name in names
        ),
        buses=(
            Bus(name="main", nominal_v=54.0, supplies=main, branches=(Branch(gpus=None),)),
            Bus(name="twelve", nominal_v=12.0, supplies=low, branches=(Branch(board="mainboard"),)),
        ),
    )
    rails = (Rails(nominal_v=54.0, count=2, sag_ratio=0.0), Rails(nominal_v=12.0, count=2, sag_ratio=0.08))
    with page_with(browser, *rails, gpus=4, described=described):
        see(browser, "#wiring .chain .verdict", "54 V bus within limits; 12 V intermediate bus below its limit")
        assert text(browser, "#wiring .chain .verdict").endswith("converter or its load")
        see(browser, "#wiring .chain li.alarming", "below limit")
        check_readable(browser)


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_the_contrast_of_wcag_aa_in_light_and_dark(browser: WebDriver, *, dark: bool) -> None:
    look(browser, 1280, 800, dark=dark)
    with page_with(browser, Rails(nominal_v=12.0, count=2, sag_ratio=0.06), gpus=4, described=plugged(count=1)):
        see(browser, "#wiring .load.over", "over its rating")
        see(browser, "#wiring .bus.alarming", "below limit")
        low = [one for one in browser.execute_script(CONTRAST) if one["contrast"] < 4.5]
        assert low == []


def test_a_screen_reader_finds_tables_with_captions_and_lists_with_names(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=12.0, count=2), gpus=4, described=plugged(count=2)):
        caption = browser.find_element(By.CSS_SELECTOR, "#wiring caption").get_property("textContent")
        assert caption == "Supplies of bus main"
        heads = [item.text for item in browser.find_elements(By.CSS_SELECTOR, "#wiring thead th[scope=col]")]
        assert heads == ["Supply", "Voltage", "Current", "Power", "Load"]
        assert len(browser.find_elements(By.CSS_SELECTOR, "#wiring tbody th[scope=row]")) == 2
        named = [browser.find_element(By.CSS_SELECTOR, f"#wiring {part}") for part in (".wired", ".branches")]
        assert [item.get_attribute("aria-label") for item in named] == ["Bus main", "Loads of bus main"]
