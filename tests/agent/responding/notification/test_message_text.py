"""A message names what, where, the numbers, what was done, and where to look further."""

from dataclasses import replace

from agent.responding.notification.activity import IncidentActivity
from agent.responding.notification.message_text import message_of, notice_of
from agent.responding.notification.notice import NoticeKind, notice_from_json, notice_to_json
from telemetry.records import FaultClass, Hypothesis, Severity
from tests.agent.fakes import START_NS
from tests.agent.responding.notification.incidents import incident, notice


def test_one_message_has_all_that_a_person_needs_to_act() -> None:
    likely = Hypothesis(cause=FaultClass.JOINT_AGEING, probability=0.62, for_=(), against=(), would_disprove="")
    received = notice_of(
        incident(hypotheses=(likely,)),
        NoticeKind.OPENED,
        node="node7",
        now_ns=START_NS,
        activity=("clock_cap 1057 MHz on gpu:a: done",),
        link="http://node7:8470",
    )
    assert received.title == "railwatch: warning: supply_sag on node7, PSU 0"
    assert received.text.splitlines() == [
        "What: psu0 dips to 11.31 V under load",
        "Means: the voltage at the load's end falls below its limit under load",
        "Where: node7, PSU 0 and 1 more",
        "Since: 2026-01-31T12:00:00Z",
        "Numbers: minimum_v 11.31 V, gpus 4",
        "railwatch: clock_cap 1057 MHz on gpu:a: done",
        "Likely: a joint, plug or cable of the supply path ages (62%)",
        "Check: under load, millivolts across each joint at a known current; then power off, check plugs and lugs",
        "Next: railwatch explain incident i-0001",
        "Page: http://node7:8470",
    ]


def test_a_simulated_node_states_so_and_a_rise_states_from_where() -> None:
    worse = notice_of(
        incident(severity=Severity.CRITICAL),
        NoticeKind.WORSE,
        node="sim",
        now_ns=START_NS,
        previous=Severity.WARNING,
        simulated=True,
    )
    assert worse.title == "railwatch: now critical: supply_sag on sim, PSU 0 (simulated)"
    assert "Severity: critical, was warning" in worse.text
    assert "railwatch: no action" in worse.text


def test_several_are_one_message_and_many_are_a_list_with_an_end() -> None:
    few = [notice(1), notice(2, severity=Severity.CRITICAL), notice(3, NoticeKind.RECOVERED)]
    title, text = message_of(few)
    assert title == "railwatch: 2 incidents, worst critical, 1 recovered, on node7"
    assert text.count("Next: railwatch explain incident") == 3
    title, text = message_of([notice(number) for number in range(1000)])
    assert title == "railwatch: 1000 incidents, worst warning, on node7"
    assert text.endswith("and 980 more: railwatch incidents list --open")
    assert len(text.splitlines()) == 21


def test_a_notice_is_the_same_after_it_was_written_down() -> None:
    one = replace(notice(), text='Ümläute\nand "quotes"')
    assert notice_from_json(notice_to_json(one)) == one


def test_measured_numbers_have_four_significant_digits_and_counts_all_of_theirs() -> None:
    first = incident()
    finding = first.findings[0]
    evidence = tuple(
        replace(finding.evidence[0], name=name, value=value)
        for name, value in (("v", 11.3123456), ("small", 0.000123456), ("count", 123456.0))
    )
    received = notice_of(
        replace(first, findings=(replace(finding, evidence=evidence),)), NoticeKind.OPENED, node="node7", now_ns=1
    )
    assert [value for _, value, _ in received.numbers] == [11.31, 0.0001235, 123456.0]


def test_nothing_is_known_of_an_incident_without_journals() -> None:
    assert IncidentActivity(()).of("i-0001") == ()
