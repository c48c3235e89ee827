"""Lines of the Fabric Manager's own log (``/var/log/fabricmanager.log``).

Form, as NVIDIA's Fabric Manager 515 to 580 writes it::

    [Mon DD YYYY HH:MM:SS] [LEVEL] [tid N] MESSAGE

What an NVSwitch reported is read by `analytics.kernel_log.sxid`; the time has no zone and whole seconds.
"""

import re
from dataclasses import dataclass

from analytics.kernel_log.events import MESSAGE_MAX_CHARS
from telemetry.records import Severity

_LINE = re.compile(
    r"\[[A-Z][a-z]{2}\s{1,2}\d{1,2} \d{4} \d{2}:\d{2}:\d{2}\] "
    r"\[(?P<level>[A-Z]{1,16})\] \[tid \d{1,10}\] (?P<text>\S.*)"
)
# Its levels (Fabric Manager user guide, LOG_LEVEL) are CRITICAL, ERROR, WARNING and INFO; the last two ask
# nobody to act.
_SEVERITIES = {"ERROR": Severity.WARNING, "CRITICAL": Severity.CRITICAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLine:
    """Line of the Fabric Manager log; `severity` is None where it reports no fault."""

    severity: Severity | None
    text: str


def fabric_line(text: str) -> FabricLine | None:
    """Parse a line; None where it has another form."""
    found = _LINE.match(text)
    if found is None:
        return None
    return FabricLine(severity=_SEVERITIES.get(found["level"]), text=found["text"][:MESSAGE_MAX_CHARS])
