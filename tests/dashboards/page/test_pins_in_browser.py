"""The pins of a GPU's 12V-2x6 connector in the readings, and none where no pin is measured."""

from dataclasses import dataclass

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from telemetry.catalogue.pins import PIN_CURRENTS, PIN_VOLTAGES, PINS
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, TableSpec
from tests.dashboards.many_rails import ManyRails, Rails
from tests.dashboards.page.browsing import complaints, open_page, page_of, see

pytestmark = pytest.mark.integration

# Amperes of the pins of gpu0: the fifth is open and its current has moved to its neighbours.
OPEN_A = (9.4, 8.9, 9.2, 9.6, 0.02, 9.1)
ROW = "#pins tbody tr:first-child"


@dataclass
class PinnedNode(ManyRails):
    """A node whose gpu0 has a connector that measures each pin."""

    def specs(self) -> dict[str, tuple[TableSpec, Rails | None]]:
        tables = super().specs()
        first = tables["gpu_fast"][0].entities[:1]
        pins = TableSpec(name="gpu_pins", kind=EntityKind.GPU, entities=first, signals=PINS)
        return tables | {pins.name: (pins, None)}

    def _cells(self, spec: TableSpec, rails: Rails | None, at_s: FloatArray) -> FloatArray:
        if spec.name != "gpu_pins":
            return super()._cells(spec, rails, at_s)
        of_signal = dict(zip(PIN_CURRENTS, OPEN_A, strict=True)) | dict.fromkeys(PIN_VOLTAGES, 11.92)
        of_signal[PIN_VOLTAGES[3]] = 11.874
        row = np.array([of_signal[name] for name in PINS])
        return np.broadcast_to(row, (len(at_s), 1, len(PINS))).copy()


def node(kind: type[ManyRails]) -> ManyRails:
    clock = SystemClock()
    return kind(
        clock=clock, started_ns=clock.utc_ns() - 30 * NS_PER_S, rails=(Rails(nominal_v=12.0, count=1),), n_gpus=2
    )


def test_each_pin_has_its_current_and_one_above_its_limit_is_marked(browser: WebDriver) -> None:
    source = node(PinnedNode)
    with page_of(source, echarts=None) as url:
        open_page(browser, url)
        see(
            browser,
            ROW,
            "9.40\u202fA 8.90\u202fA 9.20\u202fA 9.60\u202fA 0.02\u202fA 9.10\u202fA 46.2\u202fA 11.874\u202fV",
        )
        cells = browser.find_elements(By.CSS_SELECTOR, f"{ROW} td.over")
        assert [cell.text for cell in cells] == ["9.40\u202fA", "9.60\u202fA"]
        shown = [row.is_displayed() for row in browser.find_elements(By.CSS_SELECTOR, "#pins tbody tr")]
        assert shown == [True, False]
        assert not [line for line in complaints(browser) if "echarts" not in line]


def test_without_measured_pins_there_is_no_table_of_them(browser: WebDriver) -> None:
    with page_of(node(ManyRails), echarts=None) as url:
        open_page(browser, url)
        see(browser, "#gpus tbody tr:first-child", "GPU 0")
        assert not browser.find_element(By.ID, "pins").is_displayed()
