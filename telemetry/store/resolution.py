"""Resolutions in which samples are stored."""

from enum import StrEnum


class Resolution(StrEnum):
    """Every sensor update, or one row a second; also the name of the retention policy or bucket."""

    RAW = "raw"
    ROLLUP = "rollup"
