"""A page served from a made-up source, and what a person sees of it in a browser."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from dashboards.page.app import create_app
from dashboards.page.server import PageServer, bind
from tests.dashboards.fakes import FakeSource

WITHIN_S = 15


@contextmanager
def page_of(source: FakeSource, *, echarts: Path | None, token: str | None = None) -> Iterator[str]:
    server = PageServer(
        lambda: create_app(source, clock=source.clock, echarts=echarts, token=token), bind("127.0.0.1", 0)
    )
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def text(browser: WebDriver, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).text


def wait(browser: WebDriver, is_so: Callable[[WebDriver], bool]) -> None:
    # The page may redraw an element between the look and the question.
    patient = WebDriverWait(browser, WITHIN_S, poll_frequency=0.1, ignored_exceptions=[StaleElementReferenceException])
    patient.until(is_so)


def see(browser: WebDriver, selector: str, expected: str) -> None:
    wait(browser, lambda shown: any(expected in item.text for item in shown.find_elements(By.CSS_SELECTOR, selector)))


def open_page(browser: WebDriver, url: str) -> None:
    browser.get(url)
    wait(browser, lambda shown: bool(shown.execute_script("return document.documentElement.dataset.ready === 'true'")))


def complaints(browser: WebDriver) -> list[str]:
    return [
        entry["message"]
        for entry in browser.get_log("browser")  # type: ignore[no-untyped-call]
        if entry["level"] == "SEVERE"
    ]


def painted_pixels(browser: WebDriver, selector: str) -> int:
    """Count the pixels of a chart that are not blank."""
    count: int = browser.execute_script(
        "const canvas = document.querySelector(arguments[0] + ' canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "let count = 0; for (let i = 3; i < data.length; i += 4) if (data[i]) count += 1; return count;",
        selector,
    )
    return count


def choose(browser: WebDriver, seconds: int) -> None:
    browser.execute_script("document.querySelector(`.windows input[value='${arguments[0]}']`).click()", seconds)
