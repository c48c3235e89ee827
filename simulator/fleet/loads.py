"""From a workload to its rhythm: two levels, how long each lasts, and whether all GPUs change together."""

from dataclasses import dataclass

from simulator.files.workload import Hpc, Idle, Inference, SteadyResistance, Trace, Training, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """A job as two levels that take turns.

    `busy_ms` of work at `busy_level` follows the clock by `clock_bound_share`, `quiet_ms` at `quiet_level` does not.
    `pauses_per_s` times a second everybody falls to `pause_level` for `pause_s` and rises together.

    Attributes
    ----------
    together
        All GPUs change level at once, and the slowest sets the pace; else each follows its own chance.
    stall_level
        Load of a GPU whose job cannot go on.
    """

    busy_level: float
    quiet_level: float
    busy_ms: float
    quiet_ms: float
    clock_bound_share: float
    input_factor: float
    together: bool
    jitter: float = 0.0
    skew_ms: float = 0.0
    pauses_per_s: float = 0.0
    pause_s: float = 0.0
    pause_level: float = 0.0
    stall_level: float = 0.0

    @property
    def idle(self) -> bool:
        """True if nothing runs."""
        return self.busy_level <= 0.0 and self.quiet_level <= 0.0

    @property
    def pause_share(self) -> float:
        """Return the share of the time that pauses take."""
        return min(self.pauses_per_s * self.pause_s, 1.0)


def refusal(workload: Workload) -> str | None:
    """Return why a workload has no closed form, to be written after its name; None for one that has.

    A recorded trace has no rhythm; it is played back millisecond by millisecond only.
    """
    return "a recorded trace has no closed form" if isinstance(workload, Trace) else None


def rhythm_of(workload: Workload) -> Rhythm:
    """Return the rhythm of a workload; ValueError for one that has none, see `refusal`."""
    factor = workload.input_factor
    match workload:
        case Training():
            return _training(workload, factor)
        case Inference():
            return _inference(workload, factor)
        case Hpc():
            return _hpc(workload, factor)
        case Idle():
            return _flat(0.0, factor)
        case SteadyResistance():
            return _flat(workload.level, factor)
        case Trace():
            raise ValueError(f"{workload.name}: {refusal(workload)}")


def stalled(rhythm: Rhythm) -> Rhythm:
    """Return the rhythm of a job that cannot go on: its GPUs spin."""
    return _flat(rhythm.stall_level, rhythm.input_factor)


def _flat(level: float, factor: float) -> Rhythm:
    return Rhythm(
        busy_level=level,
        quiet_level=level,
        busy_ms=500.0,  # any: nothing changes
        quiet_ms=500.0,
        clock_bound_share=0.0,
        input_factor=factor,
        together=False,
        stall_level=level,
    )


def _training(job: Training, factor: float) -> Rhythm:
    every = job.checkpoint_every
    return Rhythm(
        busy_level=1.0,
        quiet_level=job.exchange_level,
        busy_ms=job.step_ms * (1.0 - job.exchange_share),
        quiet_ms=job.step_ms * job.exchange_share,
        clock_bound_share=job.clock_bound_share,
        input_factor=factor,
        together=True,
        jitter=job.jitter,
        skew_ms=job.skew_ms,
        pauses_per_s=0.0 if every is None else 1.0 / (every + job.checkpoint_for),
        pause_s=job.checkpoint_for,
        pause_level=job.checkpoint_level,
        stall_level=job.stall_level,
    )


def _inference(job: Inference, factor: float) -> Rhythm:
    prefill_s, decode_s = sum(job.prefill_s) / 2.0, sum(job.decode_s) / 2.0
    served_per_s = min(job.requests_per_s, 1.0 / (prefill_s + decode_s))  # one after the other, the rest waits
    prefilling, decoding = served_per_s * prefill_s, served_per_s * decode_s
    rest = 1.0 - prefilling
    decode_level = sum(job.decode_level) / 2.0
    quiet_level = (decoding * decode_level + (rest - decoding) * job.waiting_level) / rest
    return Rhythm(
        busy_level=job.prefill_level,
        quiet_level=quiet_level,
        busy_ms=1000.0 * prefill_s,
        quiet_ms=1000.0 * rest / served_per_s,
        clock_bound_share=job.clock_bound_share,
        input_factor=factor,
        together=False,
        stall_level=job.waiting_level,
    )


def _hpc(job: Hpc, factor: float) -> Rhythm:
    low, high = job.level
    phase_ms = 500.0 * sum(job.phase_s)
    return Rhythm(
        busy_level=0.5 * (high + 0.5 * (low + high)),  # the upper half of the phases on average, and the lower
        quiet_level=0.5 * (low + 0.5 * (low + high)),
        busy_ms=phase_ms,
        quiet_ms=phase_ms,
        clock_bound_share=job.clock_bound_share,
        input_factor=factor,
        together=False,
        pauses_per_s=1.0 / (job.output_every + job.output_for),
        pause_s=job.output_for,
        pause_level=job.output_level,
        stall_level=job.output_level,
    )
