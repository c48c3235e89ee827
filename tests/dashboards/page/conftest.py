"""One browser for the tests of a file, as new for each test."""

from collections.abc import Iterator

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.browser import chromium, look


@pytest.fixture(scope="module")
def one_browser() -> Iterator[WebDriver]:
    with chromium(1280, 900) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: WebDriver) -> WebDriver:
    """Return the browser as if it had just been started: its usual size, nothing open, nothing complained of."""
    look(one_browser, 1280, 900)
    one_browser.get("about:blank")
    one_browser.get_log("browser")  # type: ignore[no-untyped-call]
    return one_browser
