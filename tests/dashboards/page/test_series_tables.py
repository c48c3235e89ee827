import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dashboards.page.series_tables import table_json, table_of, thin, whole_buckets
from telemetry.frames import Frame
from telemetry.signals import CATALOGUE
from tests.dashboards.fakes import GPU_FAST_TABLE, GPUS, SUPPLIES, SUPPLY_TABLE

GAPPY = st.floats(-1e3, 1e3) | st.just(float("nan"))


def supply_frame(time_ns: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> Frame:
    return Frame(spec=SUPPLY_TABLE, time_ns=time_ns, values=values, fresh=np.ones_like(values, dtype=bool))


@given(
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    bucket_ns=st.integers(1, 100),
    data=st.data(),
)
def test_thinning_keeps_the_extremes_and_the_absence_of_every_bucket(
    steps: list[int], bucket_ns: int, data: st.DataObject
) -> None:
    time_ns = np.cumsum(np.array(steps, dtype=np.int64))
    values = data.draw(arrays(np.float64, (len(steps), 2), elements=GAPPY))
    before = values.copy()
    thin_ns, thinned = thin(time_ns, values, bucket_ns)
    np.testing.assert_array_equal(values, before)
    assert len(thin_ns) == len(thinned) <= len(time_ns)
    assert (np.diff(thin_ns) > 0).all()
    for bucket in np.unique(time_ns // bucket_ns):
        rows, kept = values[time_ns // bucket_ns == bucket], thinned[thin_ns // bucket_ns == bucket]
        assert len(kept) == min(2, len(rows))
        for column in range(2):
            truth, drawn = rows[:, column], kept[:, column]
            if np.isnan(truth).all():
                assert np.isnan(drawn).all()
            else:
                assert np.nanmin(drawn) == np.nanmin(truth)
                assert np.nanmax(drawn) == np.nanmax(truth)


def test_rows_that_are_few_pass_as_they_are() -> None:
    time_ns = np.arange(10, dtype=np.int64) * 50
    values = np.random.default_rng(1).normal(size=(10, 3))
    thin_ns, thinned = thin(time_ns, values, 100)
    np.testing.assert_array_equal(thin_ns, time_ns)
    np.testing.assert_array_equal(thinned, values)


def test_a_bucket_that_has_not_ended_waits() -> None:
    frame = supply_frame(np.array([10, 110, 210, 290], dtype=np.int64), np.ones((4, 2, 2)))
    assert whole_buckets(frame, now_ns=299, bucket_ns=100).time_ns.tolist() == [10, 110]
    assert whole_buckets(frame, now_ns=300, bucket_ns=100).time_ns.tolist() == [10, 110, 210, 290]


def test_a_table_rounds_to_what_the_signal_carries_and_states_null_for_absent() -> None:
    values = np.full((1, 2, 2), np.nan)
    values[0, 0, 0] = 11.3123456
    table = table_of(supply_frame(np.array([5_000_000], dtype=np.int64), values), bucket_s=0.1, signals=("voltage_v",))
    assert table is not None
    assert table_json(table) == {
        "table": "supply",
        "kind": "supply",
        "time_ms": (5,),
        "series": [
            {"entity": "supply:psu0", "signal": "voltage_v", "unit": "V", "values": (11.312,)},
            {"entity": "supply:psu1", "signal": "voltage_v", "unit": "V", "values": (None,)},
        ],
    }


def test_a_table_is_narrowed_by_entity_and_none_where_nothing_is_left() -> None:
    frame = supply_frame(np.array([1], dtype=np.int64), np.ones((1, 2, 2)))
    one = table_of(frame, bucket_s=1, signals=("current_a", "voltage_v"), entities=(SUPPLIES[1].id,))
    assert one is not None
    assert [(item.entity, item.signal) for item in one.series] == [
        ("supply:psu1", "voltage_v"),
        ("supply:psu1", "current_a"),
    ]
    assert table_of(frame, bucket_s=1, signals=("power_w",)) is None
    assert table_of(frame, bucket_s=1, signals=("voltage_v",), entities=("gpu:x",)) is None


def test_the_fakes_speak_the_catalogue() -> None:
    names = {(item.entity, item.name) for item in CATALOGUE}
    assert {(GPU_FAST_TABLE.kind, name) for name in GPU_FAST_TABLE.signals} <= names
    assert len(GPUS) == 4
