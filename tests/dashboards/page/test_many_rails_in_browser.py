"""Nodes of 2 to 16 rails of any voltage, and 4 to 16 GPUs, on one screen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from dashboards.page.app import echarts_dir
from telemetry.clock import NS_PER_S, SystemClock
from tests.browser import look
from tests.dashboards.fakes import Story
from tests.dashboards.many_rails import ManyRails, Rails
from tests.dashboards.page.browsing import choose, complaints, open_page, page_of, painted_pixels, see, text, wait

pytestmark = pytest.mark.integration

# Axes of a chart as drawn: [lowest, highest] of voltage and current.
AXES = """
const done = arguments[arguments.length - 1];
import('/static/echarts/index.js').then(({ echarts }) => {
  const chart = echarts.getInstanceByDom(document.querySelector(arguments[0] + ' .plot'));
  done(chart.getOption().yAxis.map(({ min, max }) => [min, max]));
});
"""
# Every text on every canvas, with its rectangle and the size of the canvas in pixels.
TEXTS = """
const done = arguments[arguments.length - 1];
import('/static/echarts/index.js').then(({ echarts }) => {
  done([...document.querySelectorAll('.chart')].flatMap((card) => {
    const chart = echarts.getInstanceByDom(card.querySelector('.plot'));
    const shown = chart.getZr().storage.getDisplayList(true);
    return shown.filter((one) => one.type === 'tspan' && one.style.text).map((one) => {
      const box = one.getBoundingRect().clone();
      if (one.transform) box.applyTransform(one.transform);
      const [right, bottom] = [box.x + box.width, box.y + box.height];
      const size = { width: chart.getWidth(), height: chart.getHeight() };
      return { chart: card.id, text: one.style.text, left: box.x, right, top: box.y, bottom, ...size };
    });
  }));
});
"""
# The lower edge of the lowest chart, in pixels of the page.
LOWEST = "return Math.max(...[...document.querySelectorAll('.chart')].map((one) => one.getBoundingClientRect().bottom))"
HALF_PIXEL = 0.5


@contextmanager
def page_with(browser: WebDriver, *rails: Rails, gpus: int = 8, story: Story | None = None) -> Iterator[ManyRails]:
    clock = SystemClock()
    source = ManyRails(
        clock=clock,
        started_ns=clock.utc_ns() - 90 * NS_PER_S,
        rails=rails,
        n_gpus=gpus,
        quiet=story is None,
        story=story or Story(),
    )
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        wait(browser, lambda shown: painted_pixels(shown, "#chart-psu0") > 500)
        yield source


def order(browser: WebDriver) -> list[str]:
    return [item.get_attribute("id") or "" for item in browser.find_elements(By.CSS_SELECTOR, ".rails .chart")]


def axes(browser: WebDriver, chart: str) -> list[list[float]]:
    found: list[list[float]] = browser.execute_async_script(AXES, chart)
    return found


def texts(browser: WebDriver) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.execute_async_script(TEXTS)
    return found


def test_rails_of_54_v_are_drawn_against_their_own_limit_and_the_weakest_is_first(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6)):
        see(browser, ".rails .about", "54\u202fV rails · limit 51.30\u202fV · nominal voltage from sensor limits")
        wait(browser, lambda shown: order(shown)[0] == "chart-psu1")
        assert order(browser)[1:] == ["chart-psu0", "chart-psu2", "chart-psu3", "chart-psu4", "chart-psu5"]
        see(browser, "#figure-rails-54 .label", "54\u202fV rails, lowest of 6")
        see(browser, "#figure-rails-54 .sub", "PSU 1 · limit 51.30\u202fV")
        see(browser, "#supplies tbody tr:nth-child(2)", "54\u202fV (sensor limits)")
        assert {one["text"] for one in texts(browser)} >= {"51.3\u202fV", "54\u202fV"}
        assert "unknown" not in text(browser, ".rails .chart")
        assert complaints(browser) == []


def test_a_rail_below_its_limit_is_marked_at_its_chart_and_its_figure(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6, sag_ratio=0.06)):
        wait(browser, lambda shown: "alarming" in class_of(shown, "#chart-psu1"))
        assert "alarming" not in class_of(browser, "#chart-psu0")
        see(browser, "#figure-rails-54.alarming .sub", "below the 51.30\u202fV limit")


def class_of(browser: WebDriver, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).get_attribute("class") or ""


@pytest.mark.parametrize(("count", "gpus"), [(2, 4), (3, 4), (4, 8), (6, 8), (8, 8), (16, 16)])
def test_all_charts_of_a_node_are_on_one_screen_and_no_text_is_clipped_or_covers_another(
    browser: WebDriver, count: int, gpus: int
) -> None:
    look(browser, 1280, 800)
    story = Story(sag_from_s=10, incident_s=50, cap_s=51)
    with page_with(browser, Rails(nominal_v=48.0, count=count), gpus=gpus, story=story):
        see(browser, "#incidents", "Supply sag")
        wait(browser, lambda shown: any(one["text"] == "incident" for one in texts(shown)))
        assert browser.execute_script(LOWEST) <= 800
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280
        check_texts(browser)


def check_texts(browser: WebDriver) -> None:
    """Check that no text of a chart is clipped or covers another."""
    found = texts(browser)
    for one in found:
        assert one["left"] >= -HALF_PIXEL, one
        assert one["right"] <= one["width"] + HALF_PIXEL, one
        assert one["top"] >= -HALF_PIXEL, one
        assert one["bottom"] <= one["height"] + HALF_PIXEL, one
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert one["chart"] != other["chart"] or apart(one, other), (one, other)


def apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if two texts do not cover each other; lines of text have a margin of two pixels above and below."""
    across = one["right"] <= other["left"] + HALF_PIXEL or other["right"] <= one["left"] + HALF_PIXEL
    return bool(across or one["bottom"] <= other["top"] + 4 or other["bottom"] <= one["top"] + 4)


def test_twins_have_equal_axes(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6)):
        wait(browser, lambda shown: order(shown)[0] == "chart-psu1")
        first, *others = [axes(browser, f"#chart-psu{number}") for number in range(6)]
        assert all(other == first for other in others)
        (low, high), _ = first
        assert low < 0.95 * 54 < 54 < high < 58


def test_without_a_tag_the_readings_show_the_nominal_voltage(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=12.0, count=2, named_from="")):
        see(browser, ".rails .about", "12\u202fV rails · limit 11.40\u202fV · nominal voltage from readings")
        see(browser, "#figure-psu0 .sub", "limit 11.40\u202fV")


def test_a_rail_whose_readings_ended_is_unknown_comes_first_and_keeps_its_nominal_voltage(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6, named_from="", sag_ratio=0.005, lost_s=60)):
        wait(browser, lambda shown: order(shown)[0] == "chart-psu1")
        see(browser, "#chart-psu1 .legend", "unknown")
        assert len(browser.find_elements(By.CSS_SELECTOR, ".rails .about")) == 1
        see(browser, "#figure-rails-54 .sub", "1 unknown")
        row = "54\u202fV (readings) unknown unknown 0.0\u202fA 51.30\u202fV"
        see(browser, "#supplies tbody tr:nth-child(2)", row)


def test_a_voltage_of_no_class_has_no_limit(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=24.0, count=4, named_from="configuration")):
        see(browser, ".rails .about", "24\u202fV rails · no limit is known · nominal voltage from configuration")
        see(browser, "#figure-rails-24 .sub", "no limit known")


@pytest.mark.parametrize("seconds", [60, 3600, 30 * 86_400])
def test_rails_that_a_store_holds_under_their_old_names_are_drawn(browser: WebDriver, seconds: int) -> None:
    with page_with(browser, Rails(nominal_v=48.0, count=4, old_names=True)):
        choose(browser, seconds)
        wait(browser, lambda shown: (text(shown, "#steps") != "") == (seconds > 600))
        wait(browser, lambda shown: 45 < axes(shown, "#chart-psu1")[0][1] < 52)
        wait(browser, lambda shown: painted_pixels(shown, "#chart-psu1") > 1000)
        assert text(browser, "#no-history") == ""
        check_texts(browser)


def test_two_buses_are_apart_and_each_names_the_gpus_that_it_feeds(browser: WebDriver) -> None:
    buses = (Rails(nominal_v=12.0, count=2, gpus=(0, 3)), Rails(nominal_v=12.0, count=1, gpus=(3, 4)))
    with page_with(browser, *buses, gpus=4):
        see(browser, ".rails .about", "12\u202fV rails of GPUs 0-2 · limit 11.40\u202fV")
        see(browser, ".rails .about", "12\u202fV rails of GPU 3 · limit 11.40\u202fV")
        assert axes(browser, "#chart-psu0") == axes(browser, "#chart-psu2")


def test_rails_that_feed_no_gpu_come_after_those_that_do(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=5.0, count=1), Rails(nominal_v=54.0, count=2)):
        headings = [item.text for item in browser.find_elements(By.CSS_SELECTOR, ".rails .about")]
        assert [heading.partition(" rails")[0] for heading in headings] == ["54\u202fV", "5\u202fV"]


def test_of_many_gpus_the_worst_are_named_and_the_others_are_a_range(browser: WebDriver) -> None:
    with page_with(browser, Rails(nominal_v=54.0, count=6), gpus=16):
        see(browser, "#chart-clock h3", "lowest 3 of 16")
        see(browser, "#chart-clock .legend li:first-child", "GPU 15 1")
        see(browser, "#chart-clock .legend li:last-child", "others 17")


def test_outputs_that_a_board_controller_reports_are_drawn_where_no_supply_has_a_meter(browser: WebDriver) -> None:
    reported = Rails(nominal_v=54.0, count=2, named_from="", reported=True)
    with page_with(browser, reported):
        wait(browser, lambda shown: sorted(order(shown)) == ["chart-psu0", "chart-psu1"])
        see(browser, ".rails .about", "54\u202fV rails · limit 51.30\u202fV")
    with page_with(browser, Rails(nominal_v=54.0, count=2), reported):
        wait(browser, lambda shown: sorted(order(shown)) == ["chart-psu0", "chart-psu1"])
        assert text(browser, "#supplies").count("PSU") == 2, "not again as psu2 and psu3"
