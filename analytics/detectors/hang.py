"""Hang: the GPUs of a job spin in a collective that never returns.

They show full utilisation at a fraction of the power that they compute with, all of it standing still, and no step
ends. A field report of a four-V100 node with loose module screws adds what the host shows: the driver's thread nv_queue
takes a processor, then the interrupt thread does (blbadger.github.io/gpu-server). Where the job reports its steps,
their absence is the first evidence; where none does, the driver's threads must spin, and for longer, or the power of
all GPUs must have swung from step to step and stopped on all of them (`hang_silence`). Threads are required as well
where steps end on the node while a GPU spins next to working siblings: these are the steps of another job. GPUs that
spin because a sibling vanished wait for it, which `gpu_lost` reports.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, Siblings, any_sibling
from analytics.detectors.bus_limits import HangLimits
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.hang_signs import Heartbeat, Spin, after_second, after_steps
from analytics.detectors.hang_silence import Swing, fell_silent, swing_after, with_traffic
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.seconds import SignalTally, newest, passed_s, stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.quantities import duration, percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: link errors that came up to this long before the GPUs began to spin may have hung them.
_LINKS_BEFORE_S = 30
# Utilisation below which a GPU surely does something else than spin in a kernel.
_OTHER_LOAD_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenSecond:
    """Sums of the running second, arrays of shape ``(n_gpus,)``."""

    power: SignalTally
    util: SignalTally
    threads: SignalTally
    memory_bytes: FloatArray
    mem_util_ratio: FloatArray
    steps: FloatArray
    link_errors: FloatArray

    @staticmethod
    def start(n_gpus: int) -> "OpenSecond":
        """Return the sums before the first row; quicker than `filled`."""
        unknown, tally = np.full(n_gpus, np.nan), SignalTally.start(n_gpus)
        return OpenSecond(
            power=tally,
            util=tally,
            threads=tally,
            memory_bytes=unknown,
            mem_util_ratio=unknown,
            steps=unknown,
            link_errors=unknown,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HangState:
    """State between rows.

    `threads_s` is how long a driver thread spins, `quiet_links_s` how long the links had no error. `threads_quiet` is
    true where the driver's threads were read last and did not spin. `others` marks GPUs where the steps since the spin
    began belong to another job, `silent` GPUs of a node that fell silent.
    """

    second: int | None
    judged: int | None
    conditions: Conditions
    open: OpenSecond
    spin: Spin
    swing: Swing
    heartbeat: Heartbeat
    threads_s: FromZero
    thread_ratio: FloatArray
    threads_quiet: MaskArray
    link_errors: FloatArray
    quiet_links_s: Annotated[FloatArray, np.inf]
    answered: MaskArray
    others: MaskArray
    silent: MaskArray
    siblings: Siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Raises `Cause.HANG` on each GPU that spins; several of one node point to the node.

    Critical with a spinning thread or a link error, a warning if only the steps are missing.
    """

    limits: HangLimits
    name: str = "hang"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("power_w", "gpu_util_ratio")
    joined_columns: tuple[JoinedColumn, ...] = (
        JoinedColumn(kind=EntityKind.NODE, signal="nv_queue_ratio"),
        JoinedColumn(kind=EntityKind.NODE, signal="nv_irq_ratio"),
        JoinedColumn(kind=EntityKind.LINK, signal="nvlink_crc_errors", how=Relation.SUM_BELOW),
        JoinedColumn(kind=EntityKind.LINK, signal="nvlink_replays", how=Relation.SUM_BELOW),
        JoinedColumn(kind=EntityKind.JOB, signal="steps", how=Relation.SUM_BESIDE),
    )

    def start(self, spec: TableSpec) -> HangState:
        """Return the state before the first row."""
        return filled(HangState, len(spec.entities))

    def step(self, state: HangState, frame: Frame, topology: Topology) -> tuple[HangState, tuple[Finding, ...]]:
        """Judge each second of a frame when the next one begins."""
        columns = _columns(frame)
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None:
                state, changes = self._close(state, ended_ns)
                if changes.some:
                    findings.extend(self._findings(state, changes, ended_ns, frame.spec.entities))
            state = replace(state, second=second, open=_counted(state.open, [column[rows] for column in columns]))
        return state, tuple(findings)

    def _close(self, state: HangState, now_ns: int) -> tuple[HangState, Changes]:
        """Judge the second that ended."""
        second, now = state.second or 0, state.open
        passed = 0 if state.judged is None else passed_s(state.judged, second)
        link_grew = now.link_errors > state.link_errors
        thread_ratio = np.where(now.threads.count > 0, now.threads.low, np.nan)
        threads_s = np.where(thread_ratio >= self.limits.thread_ratio, state.threads_s + passed, state.threads_s)
        state = replace(
            state,
            judged=second,
            open=OpenSecond.start(len(now.steps)),
            heartbeat=after_steps(state.heartbeat, now.steps, passed),
            threads_s=np.where(thread_ratio < self.limits.thread_ratio, 0.0, threads_s),
            thread_ratio=thread_ratio,
            threads_quiet=np.where(
                np.isnan(thread_ratio), state.threads_quiet, thread_ratio < self.limits.thread_ratio
            ),
            link_errors=np.where(np.isnan(now.link_errors), state.link_errors, now.link_errors),
            quiet_links_s=np.where(link_grew, 0.0, state.quiet_links_s + passed),
            answered=state.answered | (now.power.count > 0),
        )
        util = np.where(now.util.count > 0, now.util.low, np.nan)
        works = now.power.high > self.limits.power_ratio * state.spin.compute_w
        beside = state.heartbeat.moved & ~works & any_sibling(works, state.siblings.groups)
        progress = state.heartbeat.moved & ~beside
        spin = after_second(
            state.spin, now.power, util, now.memory_bytes, passed_s=passed, progress=progress, limits=self.limits
        )
        # A step that ends as a spin begins may still be its own.
        others = (state.others & (spin.lasted_s > 0)) | (beside & (spin.lasted_s >= self.limits.spin_s))
        swing = swing_after(
            state.swing,
            now.power,
            now.util,
            now.memory_bytes,
            spun=state.spin,
            spin=spin,
            passed_s=passed,
            limits=self.limits,
        )
        swing = with_traffic(swing, now.mem_util_ratio, spin, passed_s=passed)
        silent = fell_silent(
            swing,
            spin,
            now.mem_util_ratio,
            state.siblings.groups,
            threads_quiet=state.threads_quiet,
            limits=self.limits,
        )
        state = replace(state, spin=spin, swing=swing, others=others, silent=silent)
        over = self._evidence(state) & (util >= self.limits.util_ratio) & ~progress
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed * NS_PER_S,
            over=over,
            under=progress
            | (util < _OTHER_LOAD_RATIO)
            | (now.power.mean > self.limits.power_ratio * spin.compute_w)
            | (~state.heartbeat.known & (spin.lasted_s == 0)),
            seen=~(np.isnan(util) & np.isnan(now.power.mean)),
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
            permit=~any_sibling(state.answered & (now.power.count == 0), state.siblings.groups),
        )
        return replace(state, conditions=conditions), changes

    def _evidence(self, state: HangState) -> MaskArray:
        limits, spin, beat = self.limits, state.spin, state.heartbeat
        witness = self._witness(state)
        spins = spin.lasted_s >= limits.spin_s
        stalled = beat.stalled(spins, at_least_s=limits.stall_s, steps=limits.stall_steps)
        reported_stall = stalled & (witness | state.silent | (beat.stalled_s >= limits.alone_s))
        # Without steps of the job, link errors with a small steady load are too weak a sign.
        silent_spin = (
            (~beat.known | state.others) & (spin.lasted_s >= limits.silent_spin_s) & (state.threads_s >= limits.spin_s)
        )
        found: MaskArray = reported_stall | silent_spin | (state.silent & ~beat.known)
        return found

    def _witness(self, state: HangState) -> MaskArray:
        since_s = state.spin.lasted_s + _LINKS_BEFORE_S
        witness: MaskArray = (state.threads_s >= self.limits.spin_s) | (state.quiet_links_s <= since_s)
        return witness

    def _findings(
        self, state: HangState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        witness = self._witness(state)

        def describe(index: int, status: FindingStatus) -> Statement:
            suspects = suspects_text(
                index, entities, state.siblings.groups, answered=state.answered, spinning_s=state.spin.lasted_s
            )
            suspects = "" if state.others[index] else suspects  # siblings that work have entered another job
            sure = bool(witness[index])
            return self._describe(state, index, status, entities[index], witness=sure, suspects=suspects)

        return findings_from(
            self.name, Cause.HANG, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )

    def _describe(
        self, state: HangState, index: int, status: FindingStatus, entity: Entity, *, witness: bool, suspects: str
    ) -> Statement:
        spin, beat = state.spin, state.heartbeat
        power_w, compute_w = float(spin.power_w[index]), float(spin.compute_w[index])
        stalled_s = float(beat.stalled_s[index]) if beat.known[index] else float("nan")
        share, sign = percent(power_w / compute_w), _witness_text(state, index, self.limits)
        if status is FindingStatus.CLEARED:
            summary = f"{entity.label} works again for {duration(self.limits.clear_after_s)}"
        elif state.silent[index] and not beat.known[index]:
            n_gpus = np.count_nonzero(state.silent & (state.siblings.groups == state.siblings.groups[index]))
            summary = (
                f"{entity.label} seems to hang: all {n_gpus} GPUs constant at {share} of compute power"
                f"{sign or '; or a constant kernel'}"
            )
        else:
            summary = f"{entity.label} hangs: {_steps_text(state, index)} at {share} of compute power{sign}{suspects}"
        return Statement(
            severity=Severity.CRITICAL if witness else Severity.WARNING,
            score=1.0 if witness else 0.6,
            summary=summary,
            evidence=evidence(
                ("stalled_s", stalled_s, "s"),
                ("median_step_s", beat.median_s(index), "s"),
                ("spinning_s", float(spin.lasted_s[index]), "s"),
                ("power_w", power_w, "W"),
                ("compute_power_w", compute_w, "W"),
                ("power_spread_ratio", float(spin.spread_ratio[index]), "ratio"),
                ("swing_before_ratio", float(state.swing.swing_ratio[index]), "ratio"),
                ("thread_ratio", float(state.thread_ratio[index]), "ratio"),
                ("threads_spinning_s", float(state.threads_s[index]), "s"),
                ("since_link_error_s", float(state.quiet_links_s[index]), "s"),
            ),
        )


def _columns(frame: Frame) -> list[FloatArray]:
    """Return the rows that `_counted` takes: power, utilisation, threads, memory and its use, steps, errors."""
    threads = np.fmax(optional(frame, "nv_queue_ratio"), optional(frame, "nv_irq_ratio"))
    crc, replays = optional(frame, "nvlink_crc_errors"), optional(frame, "nvlink_replays")
    errors = np.where(np.isnan(crc), replays, crc + np.where(np.isnan(replays), 0.0, replays))
    memory, mem_util = optional(frame, "memory_used_bytes"), optional(frame, "mem_util_ratio")
    steps = optional(frame, "steps")
    return [frame.signal("power_w"), frame.signal("gpu_util_ratio"), threads, memory, mem_util, steps, errors]


def _counted(before: OpenSecond, rows: list[FloatArray]) -> OpenSecond:
    power, util, threads, memory, mem_util, steps, errors = rows
    return OpenSecond(
        power=before.power.add(power),
        util=before.util.add(util),
        threads=before.threads.add(threads),
        memory_bytes=newest(before.memory_bytes, memory),
        mem_util_ratio=newest(before.mem_util_ratio, mem_util),
        steps=newest(before.steps, steps),
        link_errors=newest(before.link_errors, errors),
    )


def _steps_text(state: HangState, index: int) -> str:
    beat = state.heartbeat
    if state.others[index]:
        return "only its siblings complete steps,"
    return f"no step for {duration(beat.stalled_s[index])}" if beat.known[index] else "job reports no steps,"


def _witness_text(state: HangState, index: int, limits: HangLimits) -> str:
    if state.threads_s[index] >= limits.spin_s:
        return "; driver thread busy"
    if state.quiet_links_s[index] <= state.spin.lasted_s[index] + _LINKS_BEFORE_S:
        return f"; link errors {duration(state.quiet_links_s[index])} ago"
    return ""


# heuristic: spinning is counted in whole seconds, so one second may be the phase of a sensor.
_LATER_S = 2.0


def suspects_text(
    index: int, entities: tuple[Entity, ...], groups: GroupArray, *, answered: MaskArray, spinning_s: FloatArray
) -> str:
    """Return a text on the suspects among the siblings of a hung GPU; empty if there is none.

    A rank that never enters a collective blocks the others: it idles, or still computes. Where all have entered, the
    last one shows where the step was slow, which is weaker.
    """
    kin = np.flatnonzero((groups == groups[index]) & answered)
    absent = [place for place in kin.tolist() if spinning_s[place] == 0.0]
    if absent:
        return f"; {_names(absent, entities)} did not enter"
    newest_s = float(spinning_s[kin].min())
    last = [place for place in kin.tolist() if spinning_s[place] < newest_s + _LATER_S]
    return f"; {_names(last, entities)} entered last" if len(last) < len(kin) else ""


def _names(places: list[int], entities: tuple[Entity, ...]) -> str:
    return ", ".join(entities[place].label for place in places)
