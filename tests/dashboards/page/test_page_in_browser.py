from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from agent.guard.foresight import reflex_id
from dashboards.page.app import create_app, echarts_dir
from dashboards.page.server import PageServer, bind
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.records import ActionState, Mode
from telemetry.series import rollup_columns
from tests.browser import look
from tests.dashboards.fakes import GPUS, QUIET, SUPPLIES, FakeSource, Story, xid_event
from tests.dashboards.page.browsing import choose, complaints, open_page, page_of, painted_pixels, see, text, wait

pytestmark = pytest.mark.integration


def node(*, up_s: float, story: Story | None = None, mode: Mode = Mode.ENFORCE, simulated: bool = True) -> FakeSource:
    clock = SystemClock()
    return FakeSource(
        clock=clock,
        started_ns=clock.utc_ns() - round(up_s * NS_PER_S),
        story=story or Story(),
        mode=mode,
        simulated=simulated,
    )


def now(source: FakeSource, stage: str) -> None:
    """Start a stage of the story now, once the page has shown the one before, however slow the machine is."""
    source.story = replace(source.story, **{stage: source.now_s()})


def test_a_sag_its_incident_the_cap_and_the_recovery_are_seen_as_they_happen(browser: WebDriver) -> None:
    source = node(up_s=55, story=replace(QUIET, sag_from_s=30))
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        assert text(browser, "#node") == "box-17"
        assert text(browser, "#simulated") == "SIMULATED"
        assert "ENFORCE" in text(browser, "#mode")
        assert "reversible" in text(browser, "#mode")
        see(browser, "#figure-psu0", "PSU 0 · lowest of 5 s")
        see(browser, "#chart-psu1", "PSU 1 · voltage and current")
        see(browser, "#chart-power .legend", "GPU 3")
        see(browser, "#sources .facts", "20\u202fHz")
        see(browser, "#figure-psu0", "below the 11.40\u202fV limit")
        now(source, "incident_s")
        see(browser, "#incidents .incident.critical", "11.31 V, limit 11.40 V")
        see(browser, "#incidents .evidence", "Source resistance 13.30\u202fmΩ")
        see(browser, "#incidents .evidence caption", "PSU 0, newest evidence")
        see(browser, "#incidents .evidence", "… against its baseline 2.6x")
        see(browser, "#incidents .foot", "expected loss 1.4 GPU-hours")
        now(source, "cap_s")
        see(browser, "#actions .action", "found\n1380\u202fMHz\nset\n1057\u202fMHz\nread back\n1057\u202fMHz")
        see(browser, "#actions .action", "Clock cap · GPUs 0-3")
        see(browser, "#actions .lease", "29:")
        wait(browser, lambda shown: "below" not in text(shown, "#figure-psu0"))
        assert float(text(browser, "#figure-psu0 .number")) > 11.4
        see(browser, "#incidents .badge", "held down by an action")
        see(browser, "#incidents .answer", "helped")
        now(source, "release_s")
        see(browser, "#actions", "No setting of railwatch is in force.")
        see(browser, "#log", "released")
        for chart in ("#chart-psu0", "#chart-psu1", "#chart-power", "#chart-clock", "#chart-heat"):
            wait(browser, lambda shown, chart=chart: painted_pixels(shown, chart) > 2000)  # type: ignore[misc]
        announced = browser.find_element(By.ID, "announce").get_property("textContent")
        assert "New incident: Supply sag." in str(announced)
        assert complaints(browser) == []


def test_the_badge_credits_no_action_with_what_was_over_before_it(browser: WebDriver) -> None:
    source = node(up_s=300)
    source.held = False
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#incidents .badge", "quiet, an action is in force")
        assert "held down" not in text(browser, "#incidents")


def test_the_act_of_a_reflex_names_the_policy_that_it_went_ahead_of(browser: WebDriver) -> None:
    source = node(up_s=300)
    (cap, *_) = source.records().actions
    name = reflex_id("supply:psu0", cap.time_ns)
    acted = replace(cap, id="a-reflex", incident_id=name, decision_id=f"sag-cap:{name}", state=ActionState.APPLIED)
    source.extra_actions += [acted, replace(acted, id="a-other", decision_id="of-another-form", wanted=900.0)]
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#actions .action", "reflex ahead of sag-cap")
        see(browser, "#log", "(reflex ahead of sag-cap)")
        see(browser, "#log", "(reflex ahead of of-another-form)")


class OldNode(FakeSource):
    """A node whose store has thirty days, without the hours from twelve to ten before now."""

    def series(self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int) -> Frame:
        self._answer()
        self.series_reads.append((kind, tuple(signals), stop_ns - start_ns, step_ns))
        entities = SUPPLIES if kind is EntityKind.SUPPLY else GPUS
        time_ns = np.arange(start_ns - start_ns % step_ns, stop_ns, step_ns)
        age_s = (stop_ns - time_ns) / NS_PER_S
        time_ns = time_ns[(age_s > 12 * 3600) | (age_s < 10 * 3600)]
        day = np.sin(2 * np.pi * time_ns / (86_400 * NS_PER_S))
        columns = []
        for name in signals:
            middle, swing = {"voltage_v": (11.7, 0.1), "power_w": (220.0, 60.0), "gpu_temp_c": (60.0, 8.0)}.get(
                name, (1300.0, 150.0) if kind is EntityKind.GPU else (70.0, 20.0)
            )
            mean = middle + swing * day
            columns += [mean, mean - 1.5 * swing, mean + swing, mean]
        values = np.stack([np.stack(columns, axis=1) + 0.01 * place for place in range(len(entities))], axis=1)
        spec = TableSpec(name=str(kind), kind=kind, entities=entities, signals=rollup_columns(kind, signals))
        return Frame(spec=spec, time_ns=time_ns, values=values, fresh=~np.isnan(values))


def test_hours_and_days_are_drawn_from_the_store_and_the_choice_is_kept(browser: WebDriver) -> None:
    clock = SystemClock()
    source = OldNode(clock=clock, started_ns=clock.utc_ns() - 120 * NS_PER_S, story=QUIET)
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        wait(browser, lambda shown: painted_pixels(shown, "#chart-power") > 2000)
        assert source.series_reads == []
        for seconds, step_s, length in ((3600, 5, "5 s"), (86_400, 120, "2 min"), (30 * 86_400, 3600, "60 min")):
            choose(browser, seconds)
            see(browser, "#steps", f"mean of every {length}.")
            assert not browser.find_element(By.ID, "no-history").is_displayed()
            assert painted_pixels(browser, "#chart-power") > 2000
            newest = source.series_reads[-2:]
            assert {(span // NS_PER_S, step // NS_PER_S) for _, _, span, step in newest} == {(seconds, step_s)}
            assert {kind for kind, _, _, _ in newest} == {EntityKind.SUPPLY, EntityKind.GPU}
        source.series_reads.clear()
        open_page(browser, url)
        see(browser, "#steps", "mean of every 60 min.")
        choose(browser, 60)
        wait(browser, lambda shown: text(shown, "#steps") == "")
        assert complaints(browser) == []


def test_a_store_that_cannot_be_read_is_reported_at_the_charts(browser: WebDriver) -> None:
    source = node(up_s=20)
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        source.failing = True
        choose(browser, 3600)
        see(browser, "#no-history", "The store cannot be read: the ring of the sampler is not there")
        source.failing = False
        choose(browser, 60)
        wait(browser, lambda shown: not shown.find_element(By.ID, "no-history").is_displayed())


def test_before_the_first_data_the_page_states_that_it_waits_and_shows_no_empty_frames(browser: WebDriver) -> None:
    source = node(up_s=20)
    source.failing = True
    with page_of(source, echarts=echarts_dir()) as url:
        browser.get(url)
        see(browser, "#node", "Waiting for the first data")
        see(browser, "#notice", "The node cannot be read")
        assert not browser.find_element(By.CSS_SELECTOR, ".chips").is_displayed()
        assert not browser.find_element(By.ID, "incidents").is_displayed()
        source.failing = False
        see(browser, "#node", "box-17")
        see(browser, "#connection", "Live")
        see(browser, "#incidents", "Incidents")


def test_values_turn_unknown_when_the_sampler_dies_and_come_back(browser: WebDriver) -> None:
    source = node(up_s=20)
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#figure-psu0 .number", ".")
        now(source, "silent_s")
        see(browser, "#notice", "No new samples for")
        see(browser, "#figure-psu0 .number", "unknown")
        see(browser, "#gpus tr[data-entity] td", "unknown")
        see(browser, "#health", "Unknown")
        source.story = Story()
        see(browser, "#figure-psu0 .unit", "V")
        wait(browser, lambda shown: not shown.find_element(By.ID, "notice").is_displayed())


def test_a_lost_gpu_reads_unknown_and_never_zero(browser: WebDriver) -> None:
    source = node(up_s=20, story=Story(lost_gpu3_s=5))
    source.extra_events.append(xid_event(source.clock.utc_ns()))
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        see(browser, "#figure-power .sub", "3 of 4 GPUs read")
        rows = browser.find_elements(By.CSS_SELECTOR, "#gpus tbody tr")
        assert "unknown" in rows[3].text
        assert "0 W" not in rows[3].text.replace("\u202f", " ").replace("100 W", "")
        assert "unknown" not in rows[0].text
        see(browser, "#log", "Xid 79")


def test_without_a_connection_the_page_states_so_and_finds_back(browser: WebDriver) -> None:
    source = node(up_s=20)
    app = create_app(source, clock=source.clock, echarts=echarts_dir())
    first = PageServer(lambda: app, bind("127.0.0.1", 0))
    first.start()
    open_page(browser, first.url)
    see(browser, "#connection", "Live")
    port = int(first.url.rstrip("/").rpartition(":")[2])
    first.stop()
    see(browser, "#connection", "Reconnecting")
    see(browser, "#notice", "reconnecting")
    again = create_app(source, clock=source.clock, echarts=echarts_dir())
    second = PageServer(lambda: again, bind("127.0.0.1", port))
    second.start()
    try:
        see(browser, "#connection", "Live")
    finally:
        second.stop()


def test_without_the_echarts_build_the_page_states_so_and_keeps_its_tables(browser: WebDriver) -> None:
    with page_of(node(up_s=20), echarts=None) as url:
        open_page(browser, url)
        see(browser, "#no-charts", "nicegui")
        see(browser, "#supplies tbody", "11.")


def test_a_phone_sees_everything_without_scrolling_sideways(browser: WebDriver) -> None:
    with page_of(node(up_s=90), echarts=echarts_dir()) as url:
        look(browser, 390, 844, dark=True)
        open_page(browser, url)
        see(browser, "#actions .action", "1057")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_a_real_node_in_observe_states_so(browser: WebDriver) -> None:
    source = node(up_s=20, mode=Mode.OBSERVE, simulated=False)
    with page_of(source, echarts=echarts_dir()) as url:
        open_page(browser, url)
        assert not browser.find_element(By.ID, "simulated").is_displayed()
        assert "OBSERVE\nclock cap observes; nothing is changed" in text(browser, "#mode")


def test_a_token_in_the_address_opens_the_page_and_leaves_the_address(browser: WebDriver) -> None:
    token = "made-up-token"
    with page_of(node(up_s=20), echarts=echarts_dir(), token=token) as url:
        browser.get(url)
        assert "a token is needed" in browser.page_source
        open_page(browser, f"{url}?token={token}")
        assert browser.current_url == url
        see(browser, "#figure-psu0 .unit", "V")
