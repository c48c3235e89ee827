"""Learning of a wiring from load steps and experiments: which GPU to move next, and what each movement showed."""

from collections.abc import Sequence

from analytics.connectivity.alignment import aligned_power
from analytics.connectivity.load_response import Contrast, LoadResponse, load_response
from railwatch.operator.wiring_proposal import GRID_S, MeasuredPower, WiringProposal, measured_power
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, label_list
from telemetry.frames import Frame

# heuristic: rows before an experiment that show what each series owes to the other GPUs.
HISTORY_S = 60.0


class WiringSession:
    """What is known of a wiring; `power` is what was measured before the first experiment."""

    def __init__(self, power: MeasuredPower) -> None:
        self._power = power
        self._responses: dict[str, LoadResponse] = {}
        self._tried: set[str] = set()
        self.proposal: WiringProposal | None = power.proposal()

    @property
    def gpus(self) -> tuple[Entity, ...]:
        """GPUs that show their power."""
        return self._power.gpus

    def to_move(self) -> tuple[Entity, ...]:
        """Return the GPUs to move that were not tried, the next one first; empty where every link is sure.

        They are those whose link is not sure; where only that of a supply is not, all others.
        """
        left = tuple(gpu for gpu in self.gpus if gpu.id not in self._tried)
        if self.proposal is None:
            return left
        if not self.proposal.unsure:
            return ()
        unsure = {entity.id for entity, link in self.proposal.links if not link.is_sure}
        return tuple(gpu for gpu in left if gpu.id in unsure) or left

    def note_tried(self, gpu: Entity) -> None:
        """Leave a GPU out from now on, whatever came of it."""
        self._tried.add(gpu.id)

    def learn(self, gpu: Entity, response: LoadResponse) -> None:
        """Add what the supplies showed while a GPU was moved, in place of what an earlier movement showed."""
        self._responses[gpu.id] = response
        self.proposal = self._power.proposal([*self._responses.values()])

    def response(
        self, gpu: Entity, frames: Sequence[Frame], contrasts: Sequence[Contrast], *, start_ns: int
    ) -> LoadResponse | None:
        """Return what the supplies showed while a GPU was moved; None where its power did not follow.

        Parameters
        ----------
        frames
            Samples from some time before the experiment until its end.
        contrasts
            In seconds from `start_ns`.
        """
        power = measured_power(frames)
        if power is None or _ids(power) != _ids(self._power):
            return None  # a part fell silent meanwhile: the rows cannot be compared
        later_s = (start_ns - power.start_ns) / NS_PER_S
        aligned = aligned_power(power.supply_w, power.gpu_w, step_s=GRID_S)
        return load_response(
            aligned.supply_w,
            aligned.gpu_w,
            [one.id for one in power.gpus].index(gpu.id),
            [one.later(later_s) for one in contrasts],
            step_s=GRID_S,
            window_s=aligned.window_s,
        )

    def seen_line(self, gpu: Entity, response: LoadResponse) -> str:
        """Return what an experiment showed: ``GPU 3 moved by 44 W, PSU 2 by 46 W with it``."""
        changes = zip(self._power.supplies, response.supply_w.tolist(), response.error_w.tolist(), strict=True)
        seen = [
            (supply.label, change_w)
            for supply, change_w, error_w in changes
            if change_w > max(2.0 * error_w, 0.1 * response.gpu_w)
        ]
        if not seen:
            return f"{gpu.label} moved by {response.gpu_w:.0f} W, no supply with it"
        labels, followed_w = label_list(label for label, _ in seen), sum(change_w for _, change_w in seen)
        return f"{gpu.label} moved by {response.gpu_w:.0f} W, {labels} by {followed_w:.0f} W with it"


def _ids(power: MeasuredPower) -> list[str]:
    return [one.id for one in (*power.supplies, *power.gpus)]
