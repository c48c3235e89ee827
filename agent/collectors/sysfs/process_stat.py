"""Fields of ``/proc/PID/stat`` by name (proc(5))."""

from dataclasses import dataclass

# Positions behind the bracket that closes the name: ppid is field 4, utime and stime are 14 and 15, starttime is 22.
_PARENT, _USER, _SYSTEM, _START = 1, 11, 12, 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """Parent, processor time and start of a process; times in ticks of USER_HZ.

    `start_ticks` distinguishes a process from a later one with the same number.
    """

    parent: int
    user_ticks: int
    system_ticks: int
    start_ticks: int


def parse_process_stat(text: bytes) -> ProcessStat | None:
    """Parse the text of ``/proc/PID/stat``; None where a field is missing or no number.

    The process name, in brackets, may hold spaces and brackets itself.
    """
    fields = text.rpartition(b")")[2].split()
    try:
        return ProcessStat(
            parent=int(fields[_PARENT]),
            user_ticks=int(fields[_USER]),
            system_ticks=int(fields[_SYSTEM]),
            start_ticks=int(fields[_START]),
        )
    except (IndexError, ValueError):
        return None
