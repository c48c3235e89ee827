"""A real headless Chromium for tests that look at a page."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

from tests.services import require

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextmanager
def chromium(width: int, height: int, *, dark: bool = False) -> Iterator[WebDriver]:
    """Return a browser whose page is so many CSS pixels wide and high; skips the test where there is no Chromium."""
    binary, driver = require("chromium"), require("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        for argument in (*_ARGUMENTS, f"--user-data-dir={profile}", f"--window-size={max(width, 500)},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            look(browser, width, height, dark=dark)
            yield browser
        finally:
            browser.quit()


def look(browser: WebDriver, width: int, height: int, *, dark: bool = False) -> None:
    """Make the page so many CSS pixels wide and high."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
    )
