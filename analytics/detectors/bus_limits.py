"""Limits of the detectors of links, hangs and stragglers, with the source of each default."""

from dataclasses import dataclass

from pydantic import ConfigDict, with_config

from telemetry.durations import DurationS

_strict = with_config(ConfigDict(extra="forbid"))


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class HangLimits:
    """Limits of a hang: GPUs spin, and steps stopped, the driver's threads spin too, or all GPUs fell silent at once.

    A field report of a four-V100 node names the signs: nv_queue takes a whole processor, then irq/57-nvidia, memory
    stays in use, nothing moves (blbadger.github.io/gpu-server). Frameworks time out after minutes: NCCL collectives of
    PyTorch time out after 10 (torch.distributed, ``init_process_group``).

    Parameters
    ----------
    stall_s, stall_steps
        Time without a step, at least so many seconds and so many median steps. heuristic: 20 s keeps the promise of
        30 s from hang to incident; three steps ride over a slow one.
    util_ratio
        Lowest utilisation of a GPU that spins in a collective. heuristic: the kernel runs all the time.
    power_ratio, spread_ratio
        Highest power over the GPU's own compute-phase power, and its relative standard deviation. heuristic, between
        a spinning collective (0.35 to 0.4 in simulation) and the lowest phases of a training step.
    spin_s
        Time that utilisation, power and memory must be constant.
    memory_ratio
        Change of the memory in use that still counts as none.
    thread_ratio
        Share of a processor from which nv_queue or a GPU's interrupt thread counts as spinning.
    alone_s
        Time without a step from which neither thread nor link error is required, and time of silence where the
        driver's threads are read and quiet. heuristic: three times `stall_s`, as long as the longest checkpoints.
    silent_spin_s
        Time to spin where no job reports its steps. heuristic: twice `spin_s`, as one source less is available.
    swing_ratio, swing_s
        Standard deviation of a GPU's power over its mean in windows of ten seconds, and how long it must have been so
        large, for the steps of its job to show without a counter. heuristic: waits of an eighth of each step at half
        of the compute power are 18 %; a burn load and its governor stay below 5 %.
    silence_s
        Time for which all GPUs that swung must spin where nothing but their power shows it. heuristic: what a promise
        of 30 s leaves, and longer than the 20 s that many checkpoints take. Where the driver's threads are read and
        quiet it is `alone_s`: a checkpoint may take that long.
    constant_ratio
        Highest relative standard deviation of the power for that. heuristic: a spinning kernel does the same
        all the time, and readings of it have 1 % of noise; work has phases.
    memory_busy_ratio
        Share of time with memory traffic from which a constant load is work. heuristic: a spinning kernel reads a few
        flags, memory-bound work keeps the memory busy most of the time.
    clear_after_s
        Time with steps or with other load before it counts as over.
    """

    stall_s: DurationS = 20.0
    stall_steps: float = 3.0
    util_ratio: float = 0.95
    power_ratio: float = 0.5
    spread_ratio: float = 0.05
    spin_s: DurationS = 10.0
    memory_ratio: float = 0.01
    thread_ratio: float = 0.8
    alone_s: DurationS = 60.0
    silent_spin_s: DurationS = 20.0
    swing_ratio: float = 0.1
    swing_s: DurationS = 60.0
    silence_s: DurationS = 25.0
    constant_ratio: float = 0.02
    memory_busy_ratio: float = 0.3
    clear_after_s: DurationS = 10.0


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class StragglerLimits:
    """Limits of a rank that holds up the others of a synchronous job.

    Parameters
    ----------
    late_ratio
        Share of time by which it computes longer than its siblings do, who wait. heuristic: 8 % of a step is eight
        times the 1 % that a phase of a simulated step moves by itself.
    clear_late_ratio
        Share below which it may clear, and that it must reach in each of three blocks of 15 s in a row to be reported.
    clock_ratio
        Clock under load over the siblings' median from which the clock is named as the reason. heuristic: healthy
        boards at one power limit differ by less than 5 %.
    alike_ratio
        Share of compute phases, and of waits, that the siblings have in common for the job to count as synchronous.
        heuristic: 0.8 to 0.95 in simulated training, below 0.4 for independent loads.
    memory_s
        Memory of the shares.
    settle_s
        Data needed before the first judgement.
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Quiet time before it counts as over.
    """

    late_ratio: float = 0.08
    clear_late_ratio: float = 0.04
    clock_ratio: float = 0.95
    alike_ratio: float = 0.6
    memory_s: DurationS = 60.0
    settle_s: DurationS = 60.0
    hold_s: DurationS = 30.0
    clear_after_s: DurationS = 60.0

    def __post_init__(self) -> None:
        """Refuse levels in the wrong order."""
        if not 0.0 <= self.clear_late_ratio <= self.late_ratio:
            raise ValueError("0 <= clear_late_ratio <= late_ratio")


@_strict
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealthLimits:
    """Limits of link errors and speed: a weak sign of a loose module, no forecast of a drop.

    Parameters
    ----------
    memory_s
        Memory of the counts: errors are weighed by exp(-age / memory).
    nvlink_errors
        Damaged NVLink flits in that memory, corrected ones included. heuristic: DCGM fails a link at 100 a second
        only, and warns of any (dcgm_gpu_hardware_limits.h, DcgmHealthWatch.cpp); ten among quiet siblings reveal a
        module whose contacts move long before.
    nvlink_replays
        Repeated transmissions and retrainings in that memory; DCGM fails a link at one. heuristic: two, so that a
        lone one at a change of clocks is not reported.
    pcie_errors
        PCIe replays or correctable errors in that memory: 8 replays a minute are the most that NVIDIA's resource
        manager recommends (dcgm_gpu_hardware_limits.h); the same for ten minutes is 80. heuristic: a quarter.
    ratio
        How many times the siblings' median it must be: a rail that sags makes all links replay.
    hold_s
        Time that a link must be narrow or slow under load before it is reported.
    load_ratio
        Utilisation from which the link should run at its full speed; idle links slow down to save power.
    clear_after_s
        Time without new errors and at full width before it counts as over.
    """

    memory_s: DurationS = 600.0
    nvlink_errors: float = 10.0
    nvlink_replays: float = 2.0
    pcie_errors: float = 20.0
    ratio: float = 3.0
    hold_s: DurationS = 10.0
    load_ratio: float = 0.5
    clear_after_s: DurationS = 600.0
