"""How long work that failed waits until it is tried again; pure."""

from telemetry.clock import NS_PER_S

# Heuristic: a controller that is started again is back within a minute.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return how long to wait after so many tries that failed."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(max(0, tries - 1), 16))


def is_due(due_ns: int, now_ns: int) -> bool:
    """Return whether work is due; what is further away than any pause was put off before the clock was set back."""
    return not 0 < due_ns - now_ns <= LONGEST_PAUSE_S * NS_PER_S
