"""Which incidents may not turn which knobs any more, because a person took their action back."""

from agent.actuation.hold import GpuTarget
from telemetry.knobs import KnobKind

# One incident is one entry per knob and GPU, so this is months of them.
BARRED_MAX = 1024


class Barred:
    """Remembers the newest of them, each with the reason."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[KnobKind, str, str], str] = {}

    def add(self, kind: KnobKind, gpu: GpuTarget, incident_id: str, *, reason: str) -> None:
        """Bar one."""
        self._reasons[kind, gpu.uuid, incident_id] = reason
        while len(self._reasons) > BARRED_MAX:
            self._reasons.pop(next(iter(self._reasons)))

    def reason(self, kind: KnobKind, gpu: GpuTarget, incident_id: str) -> str | None:
        """Give why an incident may not, None where it may."""
        return self._reasons.get((kind, gpu.uuid, incident_id))
