import re

import pytest

from simulator.driver.layout import FIXED, READING, REQUEST, STATE, c_header, offset_bytes


def test_every_field_of_every_record_is_in_the_header_with_its_place() -> None:
    header = c_header()
    for name, dtype in (("fixed", FIXED), ("reading", READING), ("request", REQUEST), ("state", STATE)):
        for field in dtype.names or ():
            checked = f"offsetof(plant_{name}_t, {field}) == {offset_bytes(dtype, field)},"
            assert checked in header
        assert f"sizeof(plant_{name}_t) == {dtype.itemsize}," in header


def test_fields_that_setters_and_readers_share_are_naturally_aligned() -> None:
    for field in REQUEST.names or ():
        assert offset_bytes(REQUEST, field) % REQUEST[field].itemsize == 0
    assert offset_bytes(STATE, "request") % 8 == 0
    for field in ("sequence", "event_count", "wake"):
        assert offset_bytes(STATE, field) % STATE[field].itemsize == 0


def test_the_header_names_only_types_it_defines() -> None:
    header = c_header()
    used = set(re.findall(r"\b(plant_\w+_t) \w+\[", header))
    defined = set(re.findall(r"^} (plant_\w+_t);", header, re.MULTILINE))
    assert used <= defined


def test_only_records_have_offsets() -> None:
    with pytest.raises(ValueError, match="only a record"):
        offset_bytes(FIXED["uuid"], "uuid")
