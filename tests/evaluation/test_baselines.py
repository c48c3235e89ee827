import numpy as np

from evaluation.baselines import ROLLING, STATIC, baseline_alarms
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec

SPEC = TableSpec(
    name="supply",
    kind=EntityKind.SUPPLY,
    entities=(Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0"),),
    signals=("voltage_v",),
)


def seconds(values: FloatArray) -> list[Frame]:
    """Ten rows a second of one supply."""
    rows = values.reshape(-1, 10)
    return [
        Frame(
            spec=SPEC,
            time_ns=second * NS_PER_S + np.arange(10, dtype=np.int64) * NS_PER_S // 10,
            values=part[:, None, None],
            fresh=~np.isnan(part[:, None, None]),
        )
        for second, part in enumerate(rows)
    ]


def test_the_static_limit_sees_one_short_dip_and_the_rolling_median_does_not() -> None:
    volts = np.full(1200, 12.0)
    volts[905] = 11.3
    alarms = dict(baseline_alarms(seconds(volts)))
    assert alarms[STATIC] == (90 * NS_PER_S,)
    assert alarms[ROLLING] == ()


def test_the_rolling_median_sees_a_step_that_stays_above_the_limit() -> None:
    volts = np.full(1200, 12.0)
    volts[900:] = 11.8
    alarms = dict(baseline_alarms(seconds(volts)))
    assert alarms[STATIC] == ()
    assert alarms[ROLLING] == (94 * NS_PER_S,)  # five seconds of it


def test_alarms_within_a_minute_are_one() -> None:
    volts = np.full(3000, 12.0)
    volts[[100, 300, 500, 2000]] = 11.0
    assert dict(baseline_alarms(seconds(volts)))[STATIC] == (10 * NS_PER_S, 200 * NS_PER_S)


def test_a_bus_of_54_v_has_its_own_limit_and_gaps_state_nothing() -> None:
    volts = np.full(1200, 54.0)
    volts[200:260] = np.nan
    assert dict(baseline_alarms(seconds(volts))) == {STATIC: (), ROLLING: ()}
    volts[500] = 50.0
    assert dict(baseline_alarms(seconds(volts)))[STATIC] == (50 * NS_PER_S,)
