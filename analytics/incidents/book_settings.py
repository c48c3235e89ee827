"""Settings for grouping and closing incidents."""

from dataclasses import dataclass

from pydantic import ConfigDict

from analytics.incidents.silence import Silence
from telemetry.durations import DurationS


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSettings:
    """Settings for grouping and closing incidents.

    Parameters
    ----------
    quiet_s
        Time without symptom and without claim before an incident closes.
    group_window_s
        Siblings whose findings began within this time point to their parent. Group windows of 60 to 120 s are usual
        in alarm management (EEMUA 191, ISA 18.2).
    confirm_s
        Time after a restart in which a detector must report again what was active before; longer than any hold.
    max_open
        Incidents kept open at once; findings beyond are counted and not taken in.
    storm_above
        Where more incidents than this open on one node or rack within `storm_window_s`, it is an alarm flood and they
        become one, except those about power, heat, lost GPUs and hangs: 10 in 10 min (ISA 18.2, EEMUA 191).
    storm_window_s
        Time in which the incidents of a flood open; see `storm_above`.
    temperature
        Above 1 the probabilities of the hypotheses are more cautious, below 1 bolder; 1 was fitted to simulated faults.
    silences
        Silences, each with `until`, `who`, `why`, and optionally `start`, `entity` and `causes`; incidents
        are kept and marked, and no operator is notified. See docs/explanation/causes-and-confidence.md.
    """

    quiet_s: DurationS = 60.0
    group_window_s: DurationS = 120.0
    confirm_s: DurationS = 120.0
    max_open: int = 10_000
    storm_above: int = 10
    storm_window_s: DurationS = 600.0
    temperature: float = 1.0
    silences: tuple[Silence, ...] = ()

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        """Refuse what is no temperature and what is no storm."""
        if not (self.temperature > 0 and self.storm_above >= 1):
            raise ValueError("temperature above 0 and storm_above at least 1")
