"""The console in a real browser: every page, a job from the form to its outputs, a key, hostile text, a lost login."""

from __future__ import annotations

import json
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from saltlite.api.fleet import VALUE_MAX
from saltlite.model.minion import ABSENCES
from tests.bench.bench_fleet import accept_simulated
from tests.bench.measure import family
from tests.bench.swarm import minion_name
from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.browser import AXE, Browser, browser
from tests.support.cloud import DRIVER
from tests.support.fleet import Fleet, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


LONG = 1500
"""Machines of a long list."""
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\u202etxt.exe"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("console")) as both:
        yield both


@pytest.fixture(scope="module")
def window(served: tuple[Fleet, str]) -> Iterator[Browser]:
    """A browser in which `admin` is logged in."""
    with browser(served[1]) as one:
        one.open("")
        one.log_in("admin")
        yield one
        assert one.complaints() == []


@pytest.fixture(scope="module")
def second(served: tuple[Fleet, str]) -> Iterator[Browser]:
    """Another browser: to start one takes as much as to use it for a whole test."""
    with browser(served[1]) as one:
        yield one


@pytest.fixture
def stranger(second: Browser) -> Iterator[Browser]:
    """A browser in which nobody is logged in, and which knows nothing of earlier tests."""
    yield second
    first, *more = second.driver.window_handles
    for handle in more:
        second.driver.switch_to.window(handle)
        second.driver.close()
    second.driver.switch_to.window(first)
    second.driver.get("about:blank")
    second.forget()


PAGES = (
    ("", "Overview", "Jobs of the last 24 hours"),
    ("machines", "Machines", "2 machines"),
    ("machines/a", "a up", "Grains"),
    ("run", "Run", "saltlite '*' test.ping"),
    ("run?kind=runner&fun=manage.up", "Run", "Runners that you started here"),
    ("jobs", "Jobs", "Function"),
    ("keys", "Keys", "Minions pin the fleet key"),
    ("tokens", "Join tokens", "Make a token"),
    ("packages", "Packages", "Ask them"),
    ("resources", "Resources", "No resource is registered"),
    ("events", "Events", "Part of the tag"),
    ("access", "Access", "This login ends"),
    ("clouds", "Clouds", "No provider is configured"),
    ("docs", "Documentation", "Execution modules"),
    ("docs/http-api", "Documentation", "It differs from Salt in these points"),
    ("docs/reference/modules/disk", "Documentation", "disk.usage"),
    ("docs?words=certificate", "Documentation", "places have"),
    ("nowhere", "There is no such page", "Overview"),
    ("%E0", "There is no such page", "Overview"),
)
"""(address, heading, text) of each page."""


@pytest.mark.parametrize(("page", "title", "text"), PAGES)
def test_each_page_has_an_address_and_fits_a_telephone(window: Browser, page: str, title: str, text: str) -> None:
    window.open(page)
    window.one("h1", title)
    window.one("main", text)
    window.emulate(width=390)
    try:
        width = window.driver.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390
        assert not window.one("header").find_element("css selector", "nav").is_displayed()
        window.click("header button", "Menu")
        window.one("header nav a", "Machines")
        assert window.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        window.emulate()


def test_a_load_that_was_interrupted_leaves_a_sentence_and_no_blank_page(stranger: Browser) -> None:
    stranger.driver.execute_cdp_cmd("Network.enable", {})
    stranger.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/parts.js"]})
    stranger.open("")
    stranger.one("#console p", "reload the page")
    stranger.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    stranger.driver.refresh()
    stranger.one("dialog h1", "Log in")
    assert not stranger.all(".loading")


def test_a_page_whose_file_does_not_come_says_so_and_the_others_work(stranger: Browser) -> None:
    stranger.driver.execute_cdp_cmd("Network.enable", {})
    stranger.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/jobs.js"]})
    stranger.open("jobs")
    stranger.log_in("admin")
    stranger.one("main h1", "Jobs")
    stranger.one("main [role=alert]", "could not be loaded")
    stranger.click("header nav a", "Machines")
    stranger.one("main td", "a")
    stranger.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


# The dark scheme has other colours, and nothing else.
@pytest.mark.parametrize(("scheme", "rules"), [("light", ()), ("dark", ("color-contrast", "link-in-text-block"))])
def test_no_page_has_a_barrier_that_axe_finds(
    window: Browser, served: tuple[Fleet, str], scheme: str, rules: tuple[str, ...]
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci --prefix .ci/npm")
    admin = Api(served[1]).log_in("admin")
    jid = admin.post("/fleet/jobs", {"tgt": "*", "fun": "grains.get", "arg": ["id"]}).json()["jid"]
    found = {}
    window.emulate(scheme=scheme)
    try:
        for page in (*(row[0] for row in PAGES), f"jobs/{jid}", "run?tgt=*&fun=pkg.remove", "machines?search=nothing"):
            window.open(page)
            window.one("h1")
            window.until(lambda: "Loading" not in window.one("main").text, f"{page} is loaded")
            found[page] = window.barriers(*rules)
    finally:
        window.emulate()
    assert {page: rows for page, rows in found.items() if rows} == {}


def test_machines_are_narrowed_by_the_address(window: Browser) -> None:
    window.open("machines")
    window.type("#search", "b")
    window.one("[role=status]", "1 machine")
    assert window.texts("tbody td:first-child") == ["b"]
    assert "search=b" in window.driver.current_url
    window.choose("main select", "compound")
    window.type("#search", "a or b")
    window.one("[role=status]", "2 machines")
    window.click("th button", "Machine")
    window.until(lambda: window.texts("tbody td:first-child") == ["b", "a"], "they are sorted the other way")


def test_older_jobs_are_fetched_as_they_come_into_view(window: Browser, served: tuple[Fleet, str]) -> None:
    admin = Api(served[1]).log_in("admin")
    for _ in range(120):
        admin.post("/fleet/jobs", {"tgt": "a", "fun": "test.version"})
    window.open("jobs?fun=test.version&within=3600")
    window.one("tbody td", "test.version")
    window.one("body").send_keys(Keys.END)
    oldest = window.until(
        lambda: next(iter(window.all("tr[aria-rowindex='121']")), None), "the oldest job of the second part is there"
    )
    window.until(lambda: window.one("table").get_attribute("aria-rowcount") == "121", "the number of jobs is known")
    window.until(lambda: "before=" in window.driver.current_url, "the address names the job at the top")
    jid = oldest.find_element("css selector", "a").text
    window.driver.refresh()
    window.one("tbody a", jid)
    window.click("button", "Newest")
    window.until(lambda: "before=" not in window.driver.current_url, "it begins with the newest one")


HOLDS_PREVIEWS = """
const real = window.fetch;
const released = new Promise((release) => { window.release = release; });
window.fetch = async (path, options) => {
  if (path.startsWith("/fleet/target")) await released;
  return real(path, options);
};
"""
"""However slow the machine is, the click comes before the answer."""


def test_a_job_goes_from_its_form_to_its_outputs(window: Browser) -> None:
    window.open("run?tgt=*&fun=test.arg")
    window.one("[role=status]", "2 targets")
    window.driver.execute_script(HOLDS_PREVIEWS)
    window.type("#search", "a")
    window.click("button.primary")  # before the master has said what the new target selects: nothing runs
    window.driver.execute_script("release()")
    window.one("[role=status]", "1 target")
    window.one("button.primary", "Run on 1 target")
    window.open("run?fun=test.arg&tgt=*")
    window.one("[role=status]", "2 targets")
    window.type("textarea", "one\nnumber=2")
    window.one("pre", "saltlite '*' test.arg one number=2")
    window.click("button.primary", "Run on 2 targets")
    window.one("h1", "test.arg on *")
    window.one(".group h3", "2 targets")
    window.one(".group pre", '"number": 2')
    first = window.driver.current_url
    window.click("button", "Run again")
    window.until(lambda: window.driver.current_url != first, "it is another job")
    window.one(".group pre", '"number": 2')


def test_the_form_says_what_the_function_does_and_why_a_machine_is_not_selected(window: Browser) -> None:
    window.open("run?tgt=a&fun=test.echo")
    window.one("p.dim", "Return")
    window.click("summary", "Why one machine")
    window.fill("Its name", "b")
    window.one("details p", "b: not selected")
    assert window.texts("[aria-label^=Terms] tbody td")[:2] == ["a", "no"]


def test_a_risk_is_confirmed_by_the_number_of_targets(window: Browser) -> None:
    window.open("run?tgt=*&fun=pkg.remove")
    window.one("p", "It carries the risk remove.")
    window.fill("name", "no-such-package")
    window.click("button.primary", "Run on 2 targets")
    window.type("[role=alertdialog] input", "1")
    window.click("[role=alertdialog] button", "Run it")
    assert window.all("[role=alertdialog]")
    window.type("[role=alertdialog] input", "2")
    window.click("[role=alertdialog] button", "Run it")
    window.one("h1", "pkg.remove on *")


def test_a_runner_goes_from_its_form_to_its_return(window: Browser) -> None:
    window.open("run")
    window.click(".tabs a", "On the master")
    window.type("#search", "test.stream")
    window.fill("count", "3")
    window.fill("interval", "0.2")
    window.one("pre", "saltlite-run test.stream count=3 interval=0.2")
    window.click("button.primary", "Run on the master")
    window.one("h1", "test.stream")
    window.one("h1 .state", "done")
    window.one("main pre", "true")
    window.one("td", "progress")
    window.click("a", "Run it again")
    window.one("td a", "test.stream")
    window.type("#search", "nothing.here")
    window.one(".note", "You may run no runner of this name")
    window.type("#search", "cloud.destroy")
    window.one(".state", "It carries the risk destroy")
    window.click("button.primary", "Run on the master")
    window.one("dialog", "It carries the risk destroy")
    window.click("dialog button", "Cancel")


def test_a_machine_has_its_own_results_of_jobs(window: Browser, served: tuple[Fleet, str]) -> None:
    Api(served[1]).log_in("admin").low(client="local", tgt="*", fun="test.retcode", arg=[7])
    window.open("machines/a")
    window.one("td", "failed return code 7")
    window.click("td summary", "show")
    window.one("td details pre", "true")


def test_outputs_that_differ_are_compared_and_those_that_failed_run_again(window: Browser) -> None:
    window.open("run?tgt=*&fun=grains.get")
    window.fill("key", "id")
    window.click("button.primary", "Run on 2 targets")
    window.until(lambda: len(window.all(".group")) == 2, "there are two groups")
    window.click(".group button", "Compare with the largest group")
    assert window.texts(".group pre span") == ["- a", "+ b"]


def test_a_job_is_followed_ended_and_run_again_where_it_failed(window: Browser, served: tuple[Fleet, str]) -> None:
    admin = Api(served[1]).log_in("admin")
    jid = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.sleep", "arg": [300]}).json()["jid"]
    window.open(f"jobs/{jid}")
    window.one("td", "running")
    window.one("[role=status]", "2 open")
    window.click("button", "End it on 2 targets")
    window.one(".note", "2 end it now")
    window.one("p", "ended by file:admin")
    window.until(lambda: "open" not in window.one("[role=status]").text, "nothing is open")
    jid = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.retcode", "arg": [3]}).json()["jid"]
    window.open(f"jobs/{jid}")
    window.one(".group h3", "return code 3")
    window.click("button", "Run again on the 2 that failed")
    window.until(lambda: jid not in window.driver.current_url, "it is another job")
    window.one("h1", "test.retcode on a,b")


def test_the_overview_plots_the_jobs_of_a_day(window: Browser, served: tuple[Fleet, str]) -> None:
    admin = Api(served[1]).log_in("admin")
    admin.low(client="local", tgt="a", fun="test.retcode", arg=[1])
    window.open("")
    plot = window.until(lambda: window.one("svg.hours"), "there is a plot")
    assert "jobs in 24 hours" in plot.get_attribute("aria-label")
    height = window.until(
        lambda: float(window.all("svg.hours rect.bad")[-1].get_attribute("height")), "the last hour has a failure"
    )
    assert height > 0
    window.click(".legend a", "failed")
    window.one("h1", "Jobs")
    window.one("td .state.bad", "failed")


MASTERS = [
    {"name": "one", "address": "one.example:4506", "version": "0.1.0", "state": "up", "weight": 100, "sessions": 5200,
     "behind": 0, "certificate_until": 1900000000, "clock_s": 0.0},
    {"name": "two", "address": "two.example:4506", "version": "0.1.0", "state": "fenced", "weight": 100, "sessions": 0,
     "behind": None, "certificate_until": None, "certificate_problem": "its certificate is damaged", "clock_s": None},
]  # fmt: skip
WITH_MASTERS = """
const real = window.fetch;
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  return path === "/fleet" && answer.ok ? Response.json({ ...(await answer.json()), ...%s }) : answer;
};
"""


def test_the_overview_has_the_masters_that_share_the_store_and_what_differs(
    stranger: Browser, served: tuple[Fleet, str]
) -> None:
    # Several masters need a database: here the page gets what the master of one of these answers.
    lease = {"lease": False}
    answer = json.dumps({"masters": MASTERS, "differences": ["nodegroups differ: one | two"], "link": lease})
    script = {"source": WITH_MASTERS % answer}
    made = stranger.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    stranger.open("")
    stranger.log_in("admin")
    stranger.one("[role=alert] p", "nodegroups differ: one | two")
    said = stranger.texts("[role=alert] p")
    assert [text.partition(":")[0] for text in said[:2]] == [
        "This master cannot renew its lease in the database",
        "two is fenced",
    ]
    assert said[2:] == ["its certificate is damaged", "nodegroups differ: one | two"]
    assert [stranger.texts(f"[aria-label^=Masters] tbody tr:nth-child({row}) td") for row in (1, 2)] == [
        ["one", "up", "one.example:4506", "0.1.0", "5,200", "0 events", "3/17/2030"],
        ["two", "fenced", "two.example:4506", "0.1.0", "0", "", "damaged"],
    ]
    stranger.emulate(width=390)
    assert stranger.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    assert not AXE.exists() or stranger.barriers() == []
    stranger.emulate()
    stranger.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


OF_SEVERAL = """
const real = window.fetch;
const at = (row) => row && { ...row, master: "two", last_seen: 1000 };
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  if (!answer.ok || !/^.fleet.(access|minions)/.test(path)) return answer;
  const found = await answer.json();
  if (found.minions) found.minions = found.minions.map(at);
  if (path === "/fleet/access") found.now = 1000 + 3 * 86400;
  return Response.json({ ...found, minion: at(found.minion) });
};
"""


def test_machines_are_shown_with_their_master_and_by_the_clock_of_the_fleet(served: tuple[Fleet, str]) -> None:
    with browser(served[1]) as one:
        one.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OF_SEVERAL})
        one.open("")
        one.log_in("admin")
        one.open("machines")
        one.one("thead th", "Master")
        assert one.texts("tbody tr:nth-child(1) td:last-child") == ["two"]
        one.open("machines/a")
        one.one("dl.panel dd", "connected since 3 d ago")
        terms = dict(zip(one.texts("dl.panel dt"), one.texts("dl.panel dd"), strict=True))
        assert terms["Master"] == "two"


def test_versions_of_a_package_are_compared_over_the_fleet(window: Browser) -> None:
    window.open("packages")
    window.type("#search", "bash")
    window.click("button.primary", "Ask them")
    window.one("[role=status]", "All answers are here")
    assert window.texts("tbody td:nth-child(2)") == ["2"]
    assert window.texts("tbody td:nth-child(3) a") == ["a", "b"]
    assert window.texts("tbody td:first-child")[0][0].isdigit()


def test_hostile_output_is_shown_as_text(window: Browser, served: tuple[Fleet, str]) -> None:
    admin = Api(served[1]).log_in("admin")
    jid = admin.post("/fleet/jobs", {"tgt": "a", "fun": "test.echo", "arg": [HOSTILE]}).json()["jid"]
    window.open(f"jobs/{jid}")
    text = window.until(lambda: window.one(".group pre").text, "there is an output")
    assert text.startswith("<img src=x onerror=alert(1)><script>")
    assert text.endswith("\\u001b[31mred\\u202etxt.exe")
    assert window.all("main img, main script") == []


@pytest.mark.parametrize(
    "page",
    [
        "machines?search={}&type=compound", "machines/{}", "run?tgt={}&fun={}", "jobs?fun={}&user={}", "jobs/{}",
        "keys?search={}", "packages?name={}&tgt={}", "resources?type={}", "events?tag={}", "docs?words={}",
        "docs/{}", "{}/{}",
    ],
)  # fmt: skip
def test_a_hostile_address_shows_text_and_nothing_else(window: Browser, page: str) -> None:
    quoted = urllib.parse.quote(HOSTILE)
    window.open("access")
    window.one("h1", "Access")
    window.open(page.format(quoted, quoted))
    window.until(lambda: window.one("main").text and "Loading" not in window.one("main").text, "it is loaded")
    assert window.all("main img, main script") == []
    assert not set(window.one("main").text) & set("\x1b\u202e")


def test_hostile_values_of_machines_events_tokens_and_rules_are_shown_as_text(
    window: Browser, served: tuple[Fleet, str]
) -> None:
    admin = Api(served[1]).log_in("admin")
    admin.post("/fleet/tokens", {"id_glob": HOSTILE})
    admin.post("/hook/console/hostile", {"x": HOSTILE, HOSTILE: 1})
    admin.low(client="local", tgt="a", fun="grains.setval", arg=["evil", HOSTILE])
    admin.low(client="local", tgt="a", fun="saltutil.refresh_grains", kwarg={"refresh_pillar": False})
    for page, text in (("machines/a", "evil"), ("events?tag=hostile", "console/hostile"), ("tokens", "Make a token")):
        window.open(page)
        window.until(lambda text=text: text in window.one("main").text, f"{page} has {text}")  # type: ignore[misc]
        for row in window.all("main summary"):
            row.click()
        window.until(lambda: "\\u202etxt.exe" in window.one("main").text, f"{page} shows what turns text around")
        assert window.all("main img, main script") == []
        assert not set(window.one("main").text) & set("\x1b\u202e")


def test_a_return_of_20_megabytes_and_one_that_is_no_text_do_no_harm(
    window: Browser, served: tuple[Fleet, str]
) -> None:
    admin = Api(served[1]).log_in("admin")

    def shown(fun: str, *arg: str) -> str:
        jid = admin.post("/fleet/jobs", {"tgt": "a", "fun": fun, "arg": list(arg), "consent": ["shell"]}).json()["jid"]
        window.open(f"jobs/{jid}")
        window.one(".group h3", "1 target")
        return str(window.one(".group pre").get_attribute("textContent"))

    long = "head -c 20000000 /dev/zero | tr '\\0' x"
    assert len(shown("cmd.run", long)) <= VALUE_MAX
    window.one(".group", "only the beginning")
    said = admin.get(window.one(".group a[download]").get_attribute("href").removeprefix(served[1]))
    assert len(said.json()["ret"]) > VALUE_MAX
    sizes = window.driver.execute_script(
        "return performance.getEntriesByType('resource').map((one) => [one.name, one.encodedBodySize])"
    )
    assert max(size for name, size in sizes if "/fleet/jobs/" in name) < 300_000
    assert shown("cmd.run", "printf '\\001\\377\\033[1m'")


def test_a_key_is_accepted_by_its_fingerprint(window: Browser, served: tuple[Fleet, str]) -> None:
    served[0].start_minion("late", trust_on_first_use=True)
    window.open("keys?state=pending")
    window.click("button[aria-label='accept late']")
    row = next(key for key in served[0].key_rows() if key["id"] == "late")
    assert window.one("dialog pre").text == row["fingerprint"]
    window.click("dialog button", "Accept")
    window.one("[role=status]", "late: done (accept)")
    window.open("machines")
    window.one("[role=status]", "3 machines")


def test_a_key_in_conflict_hides_no_other_key(window: Browser, served: tuple[Fleet, str]) -> None:
    served[0].start_minion("twin", id="a", trust_on_first_use=True)
    window.open("keys?state=conflict")
    window.one("button[aria-label='delete a']")
    window.open("keys")
    window.one("button[aria-label='revoke b']")


def test_the_documents_are_searched_and_every_part_has_an_address(window: Browser) -> None:
    window.open("docs")
    window.type("#search", "disk.format")
    window.click(".found a", "disk.format")
    window.one(".item.named h3", "disk.format")
    assert "docs/reference/modules/disk?at=disk.format" in window.driver.current_url
    top = window.driver.execute_script("return document.querySelector('.named').getBoundingClientRect().top")
    assert 0 <= top < 200
    window.open("docs/http-api?at=the-console")
    window.one("h3", "The console")
    window.until(lambda: window.driver.execute_script("return scrollY") > 0, "the section is in sight")
    # What looks like HTML in a document is text.
    window.one("li code", "/fleet/minions/<id>")
    assert window.all("article script, article img") == []
    window.open("docs/from-salt")
    window.click("article a", "salt-modules")
    window.one("article h2", "Salt's own execution modules")


def test_the_master_says_who_may_do_what(window: Browser) -> None:
    window.open("access")
    window.type("#search", "file:fred")
    window.type("[name=tgt]", "a")
    window.type("[name=fun]", "test.ping")
    window.click("button.primary", "Ask the master")
    window.one("[role=status]", "allowed file:fred may do it")
    window.one("dd code", "test.*")
    window.type("[name=fun]", "cmd.run")
    window.click("button.primary", "Ask the master")
    window.one("[role=status]", "refused file:fred")


def test_a_login_is_revoked(window: Browser, served: tuple[Fleet, str]) -> None:
    fred = Api(served[1]).log_in("fred")
    (login,) = [row["id"] for row in fred.get("/fleet/access").json()["logins"]]
    window.open("")
    window.one("h1", "Overview")
    window.open("access")
    window.click(f"button[aria-label='revoke {login}']")
    window.until(lambda: fred.get("/fleet/access").status == 401, "fred is logged out")


def test_a_join_token_is_made_shown_once_and_revoked(window: Browser) -> None:
    window.open("tokens")
    window.type("[name=ids]", "web*")
    window.click("button", "Make a token")
    text = window.one("pre", "slj1.").text
    name = text.split(".")[2]
    window.one("td code", name)
    window.open("")
    window.one("h1", "Overview")
    window.open("tokens")
    window.one("td code", name)
    window.click(f"button[aria-label='revoke the token {name}']")
    window.until(lambda: name not in window.driver.page_source, "it is gone from the list and from the page")
    assert text not in window.driver.page_source


def test_events_arrive_by_themselves(window: Browser, served: tuple[Fleet, str]) -> None:
    window.open("events?tag=console")
    window.one(".state", "live")
    Api(served[1]).log_in("admin").post("/hook/console/test", {"x": HOSTILE})
    window.one("td", "salt/netapi/hook/console/test")


def test_ten_tabs_share_one_stream_of_events(window: Browser, served: tuple[Fleet, str]) -> None:
    first = window.driver.current_window_handle
    for _ in range(9):
        window.driver.switch_to.new_window("tab")
        window.open("events?tag=console")
        window.one("h1", "Events")
        window.one("main", "console/")
    Api(served[1]).log_in("admin").post("/hook/console/tabs", {})
    for handle in window.driver.window_handles:
        if handle != first:
            window.driver.switch_to.window(handle)
            window.one("td", "salt/netapi/hook/console/tabs")
            window.driver.close()
    window.driver.switch_to.window(first)


def test_the_letters_of_the_keyboard_are_listed(window: Browser) -> None:
    window.open("")
    window.one("h1", "Overview")
    window.one("body").send_keys("?")
    window.one("dialog dd", "Documentation")
    window.click("dialog button", "Close")
    for letter, title in (
        ("j", "Jobs"),
        ("r", "Run"),
        ("k", "Keys"),
        ("a", "Access"),
        ("c", "Clouds"),
        ("d", "Documentation"),
        ("o", "Overview"),
    ):
        window.one("main").send_keys("g" + letter)
        window.one("h1", title)


def test_events_that_were_are_replayed_and_a_pause_loses_none(window: Browser, served: tuple[Fleet, str]) -> None:
    admin = Api(served[1]).log_in("admin")
    admin.post("/hook/console/earlier", {})
    for _ in range(120):
        admin.post("/hook/other", {})
    window.open("events?tag=console")
    window.one("td", "console/earlier")  # further back than the newest hundred
    window.click("button", "Pause")
    admin.post("/hook/console/meanwhile", {})
    window.one("[role=status]", "since then")
    assert "meanwhile" not in window.one("main").text
    window.click("button", "Go on")
    window.one("td", "console/meanwhile")


def test_keys_of_the_keyboard_go_to_pages_and_to_the_search(window: Browser) -> None:
    window.open("")
    window.one("h1", "Overview")
    body = window.one("body")
    body.send_keys("gm")
    window.one("h1", "Machines")
    window.until(lambda: window.all("#search"), "there is a search")
    window.one("body").send_keys("/")
    assert window.driver.switch_to.active_element.get_attribute("id") == "search"


def test_a_login_that_ended_loses_nothing_that_was_typed(stranger: Browser, served: tuple[Fleet, str]) -> None:
    stranger.open("run")
    stranger.one("h1", "Run")
    stranger.log_in("fred")
    stranger.type("#search", "a")
    stranger.one("[role=status]", "1 target")
    fred = Api(served[1]).log_in("fred")
    ids = [row["id"] for row in fred.get("/fleet/access").json()["logins"]]
    assert fred.post("/fleet/access", {"revoke": ids}).status == 200
    stranger.type("input[list]", "test.echo")
    stranger.log_in("fred")
    stranger.one("[role=status]", "1 target")
    assert stranger.one("#search").get_attribute("value") == "a"
    assert stranger.one("input[list]").get_attribute("value") == "test.echo"


def test_a_second_tab_logs_out_the_first_and_in_again(stranger: Browser) -> None:
    stranger.open("machines")
    stranger.log_in("admin")
    stranger.one("td", "a")
    first = stranger.driver.current_window_handle
    stranger.driver.switch_to.new_window("tab")
    stranger.open("jobs")
    stranger.one("h1", "Jobs")
    second = stranger.driver.current_window_handle
    stranger.click(".who button", "Log out")
    stranger.one("dialog", "Log in")
    stranger.driver.switch_to.window(first)
    stranger.one("dialog", "Log in")
    assert stranger.all("td") == []
    stranger.log_in("admin")
    stranger.driver.switch_to.window(second)
    stranger.until(lambda: not stranger.all("dialog"), "the second tab is logged in, too")


def test_what_a_user_may_not_see_is_a_sentence(stranger: Browser) -> None:
    stranger.open("machines")
    stranger.log_in("fred")
    stranger.one("[role=alert]", "may not")


def test_the_reference_is_made_once_somebody_has_opened_the_console(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api()

    api = served[0].daemons[f"api-{urllib.parse.urlsplit(url).port}"].process.pid

    def is_made() -> bool:
        commands = (Path(f"/proc/{pid}/cmdline").read_bytes() for pid in family(api))
        return any(b"saltlite.api.reference" in command for command in commands)

    assert Api(url).get("/").status == 200
    assert not is_made()
    assert Api(url).get("/", Accept="text/html").status == 200
    wait_until(is_made, "the reference is being made")


def test_the_console_can_be_switched_off(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api(console=False)
    assert Api(url).get("/", Accept="text/html").body.startswith("<!doctype html>") is False
    assert Api(url).get("/console/console.js").status == 404
    on = Api(served[1])
    assert "console.js" in on.get("/", Accept="text/html").body
    assert on.get("/").json()["return"] == "Welcome"


def test_files_are_sent_once_and_allow_no_inline_code(served: tuple[Fleet, str]) -> None:
    api = Api(served[1])
    first = api.get("/console/console.js")
    policy: Any = first.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'; script-src 'self';" in policy
    assert api.get("/console/console.js", If_None_Match=first.headers["ETag"]).status == 304
    packed = api.get("/console/console.js", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.body == first.body
    assert int(packed.headers["Content-Length"]) < len(first.body) / 2
    assert packed.headers["ETag"] != first.headers["ETag"]
    for path in ("../app.py", "%2e%2e/app.py", "vendor", "vendor/preact-LICENSE", "console.py"):
        assert api.get(f"/console/{urllib.parse.quote(path, safe='/%.')}").status == 404


def test_machines_of_clouds_are_made_and_destroyed_after_a_question(
    stranger: Browser, served: tuple[Fleet, str], tmp_path: Path
) -> None:
    fleet = served[0]
    drivers, folder = tmp_path / "drivers", fleet.folder / "master"
    drivers.mkdir(mode=0o755)
    shutil.copy(DRIVER, drivers)
    (tmp_path / "machines").mkdir()
    (folder / "cloud").write_text(f"cloud_dirs: [{drivers}]\n")
    (folder / "cloud.providers").write_text(f"lab: {{driver: scripted, folder: {tmp_path}/machines}}\n")
    (folder / "cloud.profiles").write_text("small: {provider: lab, image: any, size: small, deploy: false}\n")
    stranger.open("clouds")
    stranger.log_in("admin")
    stranger.one("main", "The providers have no machine")
    stranger.one("td", "lab:scripted")
    stranger.type("[name=names]", "web1")
    stranger.click("form button", "Create")
    stranger.click("dialog button", "Create")
    stranger.one("td", "web1")
    stranger.click("button[aria-label='Details web1']")
    stranger.one(".note pre", '"scripted": {')
    stranger.click("button[aria-label='Destroy web1']")
    assert not stranger.one("dialog button", "Destroy").is_enabled()
    stranger.type("dialog input", "web1")
    stranger.click("dialog button", "Destroy")
    stranger.one("main", "The providers have no machine")
    (folder / "cloud.providers").write_text(f"lab: {{driver: scripted, folder: {tmp_path}, trouble: down}}\n")
    stranger.click("button", "Ask the providers again")
    stranger.one("[role=alert]", "connection refused")


def test_a_master_that_is_away_is_named_and_comes_back_by_itself(stranger: Browser, served: tuple[Fleet, str]) -> None:
    fleet, url = served
    stranger.open("run?tgt=a&fun=test.arg")
    stranger.log_in("admin")
    stranger.one("[role=status]", "1 target")
    stranger.type("textarea", "what was typed")
    fleet.daemons["master"].stop()
    stranger.one(".banner", "This page tries again by itself")
    assert stranger.one("textarea").get_attribute("value") == "what was typed"
    stranger.open("machines")
    stranger.one("main [role=alert]", "master")
    fleet.restart_master()
    fleet.wait_up("a", "b")
    stranger.one("td", "a")
    stranger.until(lambda: not stranger.all(".banner"), "the banner has gone")
    stranger.open("events?tag=console")
    Api(url).log_in("admin").post("/hook/console/back", {})
    stranger.one("td", "salt/netapi/hook/console/back")


def test_a_list_of_thousands_is_fetched_as_it_comes_into_view(stranger: Browser, served: tuple[Fleet, str]) -> None:
    """The last test: the machines stay."""
    fleet = served[0]
    accept_simulated(str(fleet.root("master") / "var/lib/saltlite/master/store.sqlite"), LONG)
    last = minion_name(LONG - 1)
    total = sum("accepted" in states for states in fleet.keys().values())

    def rows() -> list[str]:
        return stranger.texts("tbody td:first-child a")

    def chosen() -> str:
        return str(stranger.driver.switch_to.active_element.text)

    stranger.open("machines")
    stranger.log_in("admin")
    stranger.one("[role=status]", f"{total:,} machines")
    stranger.one("tbody td.why", ABSENCES["never"])
    assert stranger.one("table").get_attribute("aria-rowcount") == str(total + 1)
    stranger.one("tbody a", "a").send_keys(Keys.ARROW_DOWN)
    stranger.until(lambda: chosen() == "b", "an arrow goes to the next row")
    stranger.driver.switch_to.active_element.send_keys(Keys.END)
    stranger.until(lambda: last in rows(), "the last row is there")
    assert len(rows()) < 100
    assert chosen() == "b", "the row with the focus is still there"
    row = stranger.one("tbody a", last).find_element("xpath", "ancestor::tr")
    assert row.get_attribute("aria-rowindex") == str(total + 1)
    stranger.until(lambda: "offset=" in stranger.driver.current_url, "the address names the place")
    stranger.click("tbody a", last)
    stranger.one("h1", last)
    stranger.driver.back()
    stranger.until(lambda: last in rows(), "back leads to the same rows")
    stranger.click("th button", "Machine")
    stranger.until(lambda: rows()[:1] == [last], "another order begins at its top")
    stranger.emulate(width=390)
    stranger.one("body").send_keys(Keys.END)
    stranger.until(lambda: "a" in rows(), "the last row is there on a telephone")
    sizes = stranger.driver.execute_script(
        "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/fleet/minions?'))"
        ".map((one) => one.decodedBodySize)"
    )
    assert max(sizes) < 60_000
    stranger.emulate()
    stranger.open("keys?state=accepted&sort=-id")
    stranger.one("[role=status]", f"{total:,} keys")
    assert rows()[0] == last
    stranger.one("body").send_keys(Keys.END)
    stranger.one(f"button[aria-label='revoke {minion_name(0)}']")
