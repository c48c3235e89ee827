"""A value of a PDU: its object identifier, its signal, and when it is invalid."""

import math
from dataclasses import dataclass

Oid = tuple[int, ...]
# The value of one object: a number, a text, or None where the agent has no such object.
SnmpValue = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PduChannel:
    """A signal of one part of a PDU.

    Parameters
    ----------
    part
        Unique within the PDU: ``phase-1``, ``outlet-1-7``.
    label
        Name that an administrator gave to that part; empty where there is none.
    factor
        Multiplied with the value it is the signal in its unit.
    negative_is_absent
        True where the MIB defines a negative value as "not supported".
    status, bad_statuses
        The object with the status of the value, and the statuses that make it invalid; None for no object.
    """

    part: str
    signal: str
    oid: Oid
    factor: float
    label: str = ""
    negative_is_absent: bool = False
    status: Oid | None = None
    bad_statuses: frozenset[int] = frozenset()

    def value(self, reading: SnmpValue, status: SnmpValue) -> float:
        """Return the signal in its unit, NaN where it is absent or invalid.

        Raises
        ------
        ValueError
            The agent returned a text where a number is expected.
        """
        if isinstance(status, int) and status in self.bad_statuses:
            return float("nan")
        if reading is None:
            return float("nan")
        number = float(reading)
        if not math.isfinite(number):
            raise ValueError(f"{reading!r} is not a number")
        if self.negative_is_absent and number < 0:
            return float("nan")
        return number * self.factor


def parse_oid(text: str) -> Oid:
    """Parse ``1.3.6.1`` or ``.1.3.6.1``; ValueError where it is no object identifier."""
    parts = text.strip().removeprefix(".").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not an object identifier such as 1.3.6.1.4.1.318.1.1.26.6.3.1.6.1")
    return tuple(int(part) for part in parts)
