from dataclasses import replace

import numpy as np
import pytest

from evaluation.injection.traces import FeedTrace
from evaluation.power.chains import Chain
from evaluation.power.faults import with_fault
from evaluation.power.methods import METHODS
from evaluation.power.methods.cusum import _window_cusum
from evaluation.power.methods.method import Method
from evaluation.power.plan import Track, load_plan
from evaluation.power.recordings import Trace
from telemetry.frames import FloatArray
from tests.evaluation.power.made_up import feed_chain, node_chain, pin_chain

ROWS = 900
CHAINS = {Track.FEEDS: feed_chain(ROWS), Track.NODES: node_chain(ROWS), Track.PINS: pin_chain(ROWS)}
# The fault by which each method is known to be moved, and the column that has it.
KNOWN = {
    "threshold on volts": "sag of 6 % for 2 s",
    "regression of levels": "contact +30 %",
    "regression of differences": "contact +30 %",
    "CUSUM on watts": "feed without load",
    "physics residual": "share moved by 10 %",
    "isolation forest": "feed at 0 V",
}


def scores(method: Method, chain: Chain, trace: Trace, rows: slice) -> dict[str, FloatArray]:
    found = {}
    for one in method.fit(chain)(trace, rows):
        whole = np.full(len(trace.time_ns), np.nan)
        whole[np.searchsorted(trace.time_ns, one.time_ns)] = one.score
        found[one.entity] = whole
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_method_answers_to_its_own_fault_more_than_to_anything_before(method: Method) -> None:
    chain = CHAINS[Track.FEEDS]
    fault = load_plan().faults[KNOWN[method.name]]
    put = with_fault(chain, fault, slice(600, 630 if "sag" not in KNOWN[method.name] else 602), 1)
    if "contact" in KNOWN[method.name]:
        put = with_fault(chain, fault, slice(600, ROWS), 1)
    given = scores(method, chain, put, chain.judged)
    own = given.get("feed1", given.get(""))
    assert own is not None
    assert np.nanmax(own[600:]) > np.nanmax(own[:600])


@pytest.mark.parametrize("track", Track)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_no_answer_depends_on_a_later_row(method: Method, track: Track) -> None:
    chain = CHAINS[track]
    if not method.judges(track):
        assert track is Track.NODES
        return
    rows = slice(chain.learn_rows, ROWS)
    changed = chain.trace
    for field in ("voltage_v", "current_a", "power_w"):
        if hasattr(changed, field):
            values = getattr(changed, field).copy()
            values[700:] *= 0.7
            changed = replace(changed, **{field: values})
    before, after = (scores(method, chain, trace, rows) for trace in (chain.trace, changed))
    assert before
    for entity, own in before.items():
        np.testing.assert_allclose(own[:700], after[entity][:700], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("track", Track)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_answers_about_some_rows_are_those_of_all_rows(method: Method, track: Track) -> None:
    chain = CHAINS[track]
    if not method.judges(track):
        return
    whole, part = (scores(method, chain, chain.trace, rows) for rows in (chain.judged, slice(600, 700)))
    assert part
    for entity, own in part.items():
        np.testing.assert_allclose(own[600:700], whole[entity][600:700], rtol=1e-9, atol=1e-9)
        assert np.isnan(own[:600]).all()


def test_a_windowed_sum_is_the_best_of_all_begins() -> None:
    values = np.random.default_rng(1).normal(size=(60, 2))
    found = _window_cusum(values, 7)
    for row in range(60):
        begins = [values[begin : row + 1].sum(axis=0) for begin in range(max(row - 6, 0), row + 1)]
        np.testing.assert_allclose(found[row], np.max([np.zeros(2), *begins], axis=0), atol=1e-12)


def test_a_gap_repeats_the_last_reading() -> None:
    chain = CHAINS[Track.FEEDS]
    trace = chain.trace
    assert isinstance(trace, FeedTrace)
    volts = trace.voltage_v.copy()
    volts[650:655] = np.nan
    for method in METHODS:
        for own in method.fit(chain)(replace(trace, voltage_v=volts), chain.judged):
            assert np.isfinite(own.score).all(), method.name
