"""What the engine remembers of a cap that it asked for."""

from dataclasses import dataclass, replace

from rules.cap import SupplyBasis
from rules.conditions import NOT_MET, Judgement
from telemetry.records import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One policy's hold on the clocks of some GPUs, for one incident.

    Parameters
    ----------
    decision_id
        The last decision on it.
    mode
        The mode in which it was decided; only an enforced one stands in the hardware.
    clocks
        Cap in MHz per GPU; while caps are relaxed one GPU at a time, they differ.
    held_mhz
        The cap after the last tightening.
    safe_mhz
        The clock to fall to when nobody renews the lease; None where no prediction gives one.
    tightened_ns
        When that was.
    relaxed_ns
        When a cap of it was last relaxed, None since the last tightening.
    quiet_since_ns
        Since when the symptom is gone, None while it is there.
    round_ns, round_mhz, round_left
        When the round of relaxing began, to which clock it goes, and which GPUs are still to come.
    bases
        The supplies as they were when the cap was first set; empty where the cap does not rest on a prediction.
    supplies
        The supplies that the incident was about.
    """

    policy_id: str
    incident_id: str
    entity_id: str
    decision_id: str
    mode: Mode
    lease_s: float
    clocks: tuple[tuple[str, float], ...]
    held_mhz: float
    tightened_ns: int
    safe_mhz: float | None = None
    relaxed_ns: int | None = None
    quiet_since_ns: int | None = None
    round_ns: int | None = None
    round_mhz: float | None = None
    round_left: tuple[str, ...] = ()
    bases: tuple[SupplyBasis, ...] = ()
    supplies: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs under it."""
        return tuple(gpu for gpu, _ in self.clocks)

    @property
    def lowest_mhz(self) -> float:
        """The strictest of its caps."""
        return min(clock_mhz for _, clock_mhz in self.clocks)

    @property
    def enforced(self) -> bool:
        """Whether it stands in the hardware."""
        return self.mode is Mode.ENFORCE

    def tightened(self, clock_mhz: float, *, decision_id: str, now_ns: int) -> "Claim":
        """Give it with one stricter cap on every GPU, and the way back starting anew."""
        return replace(
            self,
            decision_id=decision_id,
            clocks=tuple((gpu, clock_mhz) for gpu in self.gpus),
            held_mhz=clock_mhz,
            tightened_ns=now_ns,
            relaxed_ns=None,
            quiet_since_ns=None,
            round_ns=None,
            round_mhz=None,
            round_left=(),
        )

    def relaxed(self, gpu: str, clock_mhz: float | None, *, decision_id: str, now_ns: int) -> "Claim":
        """Give it with a higher cap on one GPU, or without that GPU where the clock is None."""
        clocks = tuple(
            (name, cap_mhz if name != gpu or clock_mhz is None else clock_mhz)
            for name, cap_mhz in self.clocks
            if name != gpu or clock_mhz is not None
        )
        left = tuple(name for name in self.round_left if name != gpu)
        return replace(self, decision_id=decision_id, clocks=clocks, relaxed_ns=now_ns, round_left=left)

    def without(self, gpu: str) -> "Claim":
        """Give it without a GPU that somebody else took out."""
        return replace(
            self,
            clocks=tuple(item for item in self.clocks if item[0] != gpu),
            round_left=tuple(name for name in self.round_left if name != gpu),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How far one policy has got with one incident.

    Parameters
    ----------
    judged_ns, judgement
        What the condition said of the incident as of then.
    met_since_ns
        Since when it has been met without a break.
    refused
        The kind of refusal that was last told, so that each is told once.
    done
        A message about this incident is out.
    barred
        Why this incident gets no new action, None where it may.
    """

    judged_ns: int | None = None
    judgement: Judgement = NOT_MET
    met_since_ns: int | None = None
    refused: str | None = None
    done: bool = False
    barred: str | None = None
