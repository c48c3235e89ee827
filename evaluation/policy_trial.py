"""Policies over a recording, compared with what was done: output of ``railwatch rules test --recording``.

The samples of a recording show the effects of the recorded actions, not those of another policy: from the first
difference on, a trial shows the requests of a policy, not their effect.

Every class of action counts as enforced, whatever its mode was, and recorded results of actions are replayed: the
policies that were in force then return the same decisions again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.guard.judges import Judges
from agent.guard.pipeline import PipelineSettings
from evaluation.replay import replayed
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.recording import Recording
from telemetry.records import Action, Decision, Mode, Record, Verdict

# heuristic: decisions of two policies on the same symptom are a pair if they are this close in time.
SAME_NS = 10 * NS_PER_S
# heuristic: half of a clock step of V100 SXM2 is 0.25 % (3.75 of 1530 MHz); a difference is twice that.
_SAME_RATIO = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDecision:
    """Decision in a trial; `outcome` lists the states of its actions, if known."""

    time_ns: int
    policy_id: str
    action: str
    targets: tuple[str, ...]
    setting: float | None
    verdict: Verdict
    reason: str
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPair:
    """Decision of the policies and the recorded one; None if one side has no counterpart."""

    time_ns: int
    would: TrialDecision | None
    was: TrialDecision | None

    @property
    def difference(self) -> str:
        """The difference as a phrase; empty if there is none."""
        if self.would is None:
            return "would not be done"
        if self.was is None:
            return "was not done"
        if (self.would.verdict is Verdict.REFUSE) is not (self.was.verdict is Verdict.REFUSE):
            return "would be refused" if self.would.verdict is Verdict.REFUSE else "was refused"
        would, was = self.would.setting, self.was.setting
        if would is not None and was is not None and abs(would - was) > _SAME_RATIO * max(abs(would), abs(was)):
            return f"{would:g} instead of {was:g}"
        others = len(set(self.would.targets) ^ set(self.was.targets))
        return f"other targets ({others})" if others else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result for one recording; `unjudged` lists what it could not judge."""

    rows: tuple[DecisionPair, ...]
    unjudged: tuple[str, ...]


def try_out(read: Recording, settings: PipelineSettings, *, done: Sequence[Record] | None = None) -> Trial:
    """Replay a recording under the policies of `settings`, and compare the decisions with the recorded ones.

    `done` replaces the records of the recording, for example by those of the store of the run.
    """
    limits = replace(settings.action_limits, modes=dict.fromkeys(ActionClass, Mode.ENFORCE))
    would = decisions_of(tuple(replayed(read, replace(settings, action_limits=limits))))
    was = decisions_of(read.records if done is None else done)
    return Trial(rows=tuple(pair_decisions(would, was)), unjudged=tuple(unjudged(read, settings)))


def decisions_of(records: Sequence[Record]) -> tuple[TrialDecision, ...]:
    """Return the decisions among records, each with its outcome, in order of time."""
    states: dict[str, list[str]] = {}
    for record in records:
        if isinstance(record, Action):
            states.setdefault(record.decision_id, []).append(record.state.value)
    found = {record.id: record for record in records if isinstance(record, Decision)}
    return tuple(
        TrialDecision(
            time_ns=item.time_ns,
            policy_id=item.rule,
            action=item.action,
            targets=item.targets,
            setting=item.setting,
            verdict=item.verdict,
            reason=item.reason,
            outcome=", ".join(dict.fromkeys(states.get(item.id, ()))),
        )
        for item in sorted(found.values(), key=lambda decision: decision.time_ns)
    )


def pair_decisions(would: Sequence[TrialDecision], was: Sequence[TrialDecision]) -> Iterator[DecisionPair]:
    """Yield pairs of decisions in order of time: each with the nearest one of the same action."""
    left = list(was)
    rows = []
    for answer in would:
        near = [
            other
            for other in left
            if other.action == answer.action
            and set(other.targets) & set(answer.targets)
            and abs(other.time_ns - answer.time_ns) <= SAME_NS
        ]
        # A decision of the same policy first, then the nearest.
        match = min(
            near, key=lambda o: (o.policy_id != answer.policy_id, abs(o.time_ns - answer.time_ns)), default=None
        )
        if match is not None:
            left.remove(match)
        rows.append(DecisionPair(time_ns=answer.time_ns, would=answer, was=match))
    rows += [DecisionPair(time_ns=other.time_ns, would=None, was=other) for other in left]
    yield from sorted(rows, key=lambda row: row.time_ns)


def unjudged(read: Recording, settings: PipelineSettings) -> Iterator[str]:
    """Yield what the recording cannot show: detectors without signals, predictions without numbers."""
    if read.span_ns is None:
        yield "the recording holds no samples: nothing was judged"
        return
    specs = [spec for spec in read.tables if not spec.is_late]
    idle = set(Judges(settings.limits, specs).idle)
    if idle:
        yield f"no signals for these detectors, so their causes were not judged: {', '.join(sorted(idle))}"
    supplies = [spec for spec in specs if spec.kind is EntityKind.SUPPLY]
    if not supplies:
        yield "no supply telemetry: nothing is known of sags, joints or the clock that holds a voltage"
    elif not any("current_a" in spec.signals for spec in supplies):
        yield "no supply currents: no source resistance, so hold_v used its fallback fraction"
    if not read.meta.config.get("supported_mhz"):
        yield "the recording does not hold the supported clocks of the GPUs: no cap could be computed"
    if not any(isinstance(record, Decision) for record in read.records):
        yield "the recording holds no decisions to compare with"
