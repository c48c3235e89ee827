"""Pauses between retries of failed work; pure."""

from telemetry.clock import NS_PER_S

# heuristic: a controller that restarts is back within a minute.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return the pause after that many failed attempts."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(max(0, tries - 1), 16))


def is_due(due_ns: int, now_ns: int) -> bool:
    """Return True if work is due; a time further away than any pause was set before the clock was set back."""
    return not 0 < due_ns - now_ns <= LONGEST_PAUSE_S * NS_PER_S
