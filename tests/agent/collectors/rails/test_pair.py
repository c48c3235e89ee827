"""Voltage and current of one rail, read as a pair."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.tree import Rail
from agent.collectors.rails.pair import RailPair
from physics.rail_classes import RAIL_CLASSES
from telemetry.entities import NominalSource
from tests.agent.collectors.node_files import write

(TWELVE_V,) = (one for one in RAIL_CLASSES if one.nominal_v == 12.0)


def _pair(root: Path, *, together: bool = True) -> RailPair:
    write(root, {"in1_input": "12000", "curr1_input": "10000"})
    rail = Rail(
        key="psu0",
        device="ina228",
        label="psu0 12V",
        voltage=root / "in1_input",
        current=root / "curr1_input",
        rail_class=TWELVE_V,
        nominal_from=NominalSource.LABEL,
        one_conversion=together,
    )
    return RailPair(rail)


def test_extremes_are_those_since_they_were_taken(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    for millivolts, milliamperes in ((12000, 10000), (11200, 60000), (12010, 9000)):
        write(tmp_path, {"in1_input": str(millivolts), "curr1_input": str(milliamperes)})
        pair.read()
    assert pair.take() == pytest.approx((12.01, 9.0, 11.2, 60.0))
    assert pair.take() == pytest.approx((12.01, 9.0, 12.01, 9.0)), "nothing was read since"
    pair.close()


def test_a_dip_that_lasts_over_a_row_is_in_the_extremes_of_both_rows(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    write(tmp_path, {"in1_input": "10900"})
    pair.read()
    assert pair.take()[2] == pytest.approx(10.9)
    pair.read()  # unchanged, in the next row
    write(tmp_path, {"in1_input": "12000"})
    pair.read()
    assert pair.take() == pytest.approx((12.0, 10.0, 10.9, 10.0))
    pair.close()


def test_an_absent_value_leaves_the_extremes_alone(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    pair.read()
    write(tmp_path, {"in1_input": "n/a"})
    assert not pair.read(), "a value that went away is no update of the sensor"
    assert pair.take() == pytest.approx((np.nan, 10.0, 12.0, 10.0), nan_ok=True)
    pair.close()


def _convert_during_the_first_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chip ends a conversion right after its voltage was read for the first time."""
    real: Callable[[int, int, int], bytes] = os.pread
    reads: list[int] = []

    def pread(fd: int, size: int, offset: int) -> bytes:
        text = real(fd, size, offset)
        reads.append(fd)
        if len(reads) == 1:
            write(root, {"in1_input": "11300", "curr1_input": "70000"})
        return text

    monkeypatch.setattr(os, "pread", pread)


def test_a_conversion_between_the_two_reads_is_noticed_and_its_pair_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = _pair(tmp_path)
    _convert_during_the_first_read(tmp_path, monkeypatch)
    pair.read()
    assert (pair.voltage_v, pair.current_a) == pytest.approx((11.3, 70.0))
    pair.close()


def test_a_supply_that_converts_one_after_the_other_is_read_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = _pair(tmp_path, together=False)
    _convert_during_the_first_read(tmp_path, monkeypatch)
    pair.read()
    assert (pair.voltage_v, pair.current_a) == pytest.approx((12.0, 70.0))
    pair.close()


def test_text_and_voltages_of_no_live_rail_are_counted(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    for text in ("n/a", "0", "99999"):
        write(tmp_path, {"in1_input": text})
        pair.read()
        assert np.isnan(pair.voltage_v)
    assert pair.refused == 4, "text is read twice, for the pair's sake"
    pair.close()


def _rows(root: Path, pair: RailPair, millivolts: str, milliamperes: str, *, count: int) -> list[float]:
    """Return the voltage of some rows, each after two reads of these values."""
    write(root, {"in1_input": millivolts, "curr1_input": milliamperes})
    volts = []
    for _ in range(count):
        pair.read()
        pair.read()
        volts.append(pair.take()[0])
    return volts


def test_a_supply_that_is_off_shows_its_true_voltage_after_two_rows_and_is_back_at_once(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    assert _rows(tmp_path, pair, "12000", "10000", count=2) == pytest.approx([12.0, 12.0])
    assert _rows(tmp_path, pair, "0", "250", count=4) == pytest.approx([np.nan, np.nan, 0.0, 0.0], nan_ok=True)
    assert not pair.is_low(11.4), "off is not low"
    refused = pair.refused
    assert _rows(tmp_path, pair, "0", "0", count=5) == pytest.approx([0.0] * 5)
    assert pair.refused == refused, "what a supply that is off shows is not implausible"
    assert _rows(tmp_path, pair, "12010", "9000", count=1) == pytest.approx([12.01])
    assert _rows(tmp_path, pair, "11200", "9000", count=1) == pytest.approx([11.2])
    assert pair.is_low(11.4)
    pair.close()


def test_no_voltage_with_a_current_or_between_plausible_ones_is_a_failed_conversion(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    assert np.isnan(_rows(tmp_path, pair, "0", "40000", count=10)).all(), "a rail at 0 V carries nothing"
    assert np.isnan(_rows(tmp_path, pair, "99999", "0", count=10)).all()
    for _ in range(5):
        assert np.isnan(_rows(tmp_path, pair, "0", "0", count=1)).all()
        assert _rows(tmp_path, pair, "12000", "10000", count=1) == pytest.approx([12.0])
    pair.close()
