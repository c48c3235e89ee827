"""The standing verdict on the page: hidden before the first one, its lines, and what draws power while it is off."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from analytics.supply.standing import OffDraw, StandingVerdict, SupplyVerdict
from dashboards.page.app import echarts_dir
from telemetry.clock import NS_PER_S, SystemClock
from tests.dashboards.fakes import QUIET
from tests.dashboards.many_rails import ManyRails, Rails
from tests.dashboards.page.browsing import complaints, open_page, page_of, see

pytestmark = pytest.mark.integration

OFF = OffDraw(supply="psu2", is_off=True, input_w=14.2, leak_a=None)
VERDICT = StandingVerdict(
    supplies=SupplyVerdict(
        time_ns=0, span_s=60, buses=(), links=(), off=(OFF,), unknown=(), input_w=None, output_w=None
    )
)


@contextmanager
def page_with(browser: WebDriver, verdict: StandingVerdict | None) -> Iterator[ManyRails]:
    clock = SystemClock()
    source = ManyRails(
        clock=clock,
        started_ns=clock.utc_ns() - 60 * NS_PER_S,
        rails=(Rails(nominal_v=54.0, count=2),),
        n_gpus=4,
        quiet=True,
        story=QUIET,
        verdict=verdict,
    )
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#wiring .gpu", "\u202fW")
        yield source


def test_before_the_first_verdict_its_place_is_hidden_and_fills_when_there_is_one(browser: WebDriver) -> None:
    with page_with(browser, None) as source:
        box = browser.find_element(By.CSS_SELECTOR, "#wiring .standing")
        assert not box.is_displayed()
        source.verdict = VERDICT
        browser.execute_async_script(
            "const done = arguments[0]; import('/static/wiring.js').then((page) => page.renewStanding()).then(done)"
        )
        see(browser, "#wiring .standing li", "PSU 2 draws 14 W while it is off")
        assert complaints(browser) == []


def test_the_verdict_is_part_of_the_wiring_panel(browser: WebDriver) -> None:
    with page_with(browser, VERDICT):
        see(browser, "#wiring .standing h3", "Standing verdict, 60 s until")
        see(browser, "#wiring .standing li", "PSU 2 draws 14 W while it is off")
