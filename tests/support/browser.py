"""A headless Chromium of this machine, on the console of an API."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.support.api import PASSWORD
from tests.support.fleet import WAIT_S

AXE = Path(__file__).parents[2] / ".ci/npm/node_modules/axe-core/axe.min.js"
"""Looks for barriers for people who use a keyboard, a screen reader or strong contrast; `.ci/run` installs it."""
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--ignore-certificate-errors",
    "--window-size=1200,900",
)  # fmt: skip


class Browser:
    """One window. Elements are found by CSS selector; every wait has an end."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, page: str) -> None:
        """Go to a page of the console, such as `machines?state=up`."""
        self.driver.get(f"{self.url}/#/{page}")

    def log_in(self, user: str) -> None:
        """Fill in the dialog that asks for a login."""
        self.choose("dialog select", "file")
        self.type("[name=username]", user)
        self.type("[name=password]", PASSWORD)
        self.click("dialog button")
        self.until(lambda: not self.all("dialog"), "the dialog has gone")

    def all(self, selector: str) -> list[Any]:
        """The elements that there are now."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def texts(self, selector: str) -> list[str]:
        """Their texts."""
        return [one.text for one in self.all(selector)]

    def one(self, selector: str, text: str = "") -> Any:
        """The first element with this text in it, once there is one."""
        return self.until(
            lambda: next((one for one in self.all(selector) if text in one.text and one.is_displayed()), None),
            f"{selector} with {text!r} is there",
        )

    def click(self, selector: str, text: str = "") -> None:
        """Click it, once it is there."""
        self.until(lambda: self.one(selector, text).click() or True, f"{selector} with {text!r} is clicked")

    def type(self, selector: str, text: str) -> None:
        """Type into a field that is there, in place of what it holds."""
        # As people do it: WebDriver's `clear` also takes the focus away.
        field = self.one(selector)
        for keys in (Keys.CONTROL + "a", Keys.DELETE, text):
            field.send_keys(keys)

    def fill(self, label: str, text: str) -> None:
        """Type into the field of the form whose label begins with these words, once it is there."""

        def filled() -> bool:
            labels = [one for one in self.all("main label") if one.text.startswith(label)]
            if labels:
                labels[0].find_element(By.CSS_SELECTOR, "input").send_keys(text)
            return bool(labels)

        self.until(filled, f"{label} is filled in")

    def choose(self, selector: str, text: str) -> None:
        """Choose in a list."""

        def chosen() -> bool:
            Select(self.one(selector)).select_by_visible_text(text)
            return True

        self.until(chosen, f"{text} is chosen in {selector}")

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """The first true answer of `look`; elements may be replaced while it looks."""
        deadline = time.monotonic() + WAIT_S
        while True:
            problem = ""
            try:
                found = look()
            except WebDriverException as error:
                found, problem = None, str(error).splitlines()[0]
            if found:
                return found
            assert time.monotonic() < deadline, (
                f"not so: {what}; {problem}; {self.complaints()}\n{self.driver.page_source[:5000]}"
            )
            time.sleep(0.05)

    def emulate(self, *, width: int = 1200, scheme: str = "light") -> None:
        """Become a screen of that width, in pixels, whose user prefers that colour scheme, light or dark."""
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def barriers(self, *rules: str) -> list[str]:
        """What axe-core finds on the page as it is: the rule, and the first element that breaks it.

        `rules`: those that it goes by, in place of all.
        """
        if not self.driver.execute_script("return Boolean(window.axe)"):
            self.driver.execute_script(AXE.read_text())
        script = """
            const [rules, done] = arguments;
            const only = rules.length ? { runOnly: { type: "rule", values: rules } } : {};
            axe.run(document, { resultTypes: ["violations"], ...only }).then(
              (found) => done(found.violations.map((one) => `${one.impact} ${one.id}: ${one.nodes[0].html}`)),
              (error) => done([String(error)]))"""
        return list(self.driver.execute_async_script(script, rules))

    def forget(self) -> None:
        """Lose all logins and what was kept of pages."""
        for command in ("Network.clearBrowserCookies", "Network.clearBrowserCache"):
            self.driver.execute_cdp_cmd(command, {})
        kept = {"origin": self.url, "storageTypes": "all"}
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", kept)

    def complaints(self) -> list[str]:
        """What the browser complained of, such as code that the policy forbids; not answers with an error status."""
        rows = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [row["message"] for row in rows if "the server responded with a status of" not in row["message"]]


@contextmanager
def browser(url: str) -> Iterator[Browser]:
    """A new window on the console of that API."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(window, url)
    finally:
        window.quit()
