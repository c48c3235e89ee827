"""Random lives of the actuator next to a naive model: no cap is left behind and no human's setting lost, on any knob.

The model knows nothing of holds and plans. For every knob it remembers what a person set last, and what each incident
requested; from that it derives which settings the knob may have, and which it must have once everything works. What
died or failed may count or not. The journal is read only for whether a person sets what railwatch may just have set.
"""

import itertools
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.actuation.held_knob import HeldKnob
from agent.actuation.limits import DEFAULT_LIMITS
from telemetry.errors import DeviceLostError, TransientError
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState
from tests.agent.actuation.rig import GPUS, Rig, cap
from tests.agent.fakes import V100_CLOCKS_MHZ, FakeKnob

SUPPORTED = {
    KnobKind.CLOCK: V100_CLOCKS_MHZ,
    KnobKind.POWER: tuple(float(limit_w) for limit_w in range(150, 301, 10)),
    KnobKind.FAN: tuple(percent / 100 for percent in range(30, 101, 5)),
}
WANTED = {
    KnobKind.CLOCK: st.sampled_from([300.0, 802.0, 1057.0, 1201.0, 1530.0]),
    KnobKind.POWER: st.sampled_from([100.0, 180.0, 200.0, 255.0, 300.0]),
    KnobKind.FAN: st.sampled_from([0.5, 0.85, 0.95, 1.0]),
}
# What a person may set by hand, also beyond what we would ask for; None where it was never touched.
BY_HAND = {
    KnobKind.CLOCK: st.sampled_from([None, 1005.0, 1380.0, 1530.0]),
    KnobKind.POWER: st.sampled_from([170.0, 250.0, 300.0, 320.0]),
    KnobKind.FAN: st.sampled_from([None, 0.35, 0.9]),
}
UUIDS = tuple(gpu.uuid for gpu in GPUS[:2])
ENTITIES = {gpu.entity_id: gpu.uuid for gpu in GPUS[:2]}
# One knob of one GPU; what one incident asked of it: the setting, the safe one, when its lease ends.
Key = tuple[KnobKind, str]
Asked = tuple[float, float, float]
KINDS, INCIDENTS, PLACES = st.sampled_from(list(KnobKind)), st.sampled_from(["a", "b", "c"]), st.sampled_from([0, 1])


def nearest(kind: KnobKind, wanted: float) -> float:
    """The supported setting next to the one wanted that protects as much, above the rail."""
    rail = DEFAULT_LIMITS[kind].min_ratio * max(SUPPORTED[kind])
    within = [setting for setting in SUPPORTED[kind] if setting >= rail]
    if kind is KnobKind.FAN:
        return min((setting for setting in within if setting >= wanted), default=max(within))
    return max((setting for setting in within if setting <= wanted), default=min(within))


def safest(kind: KnobKind, wish: Asked, now_s: float) -> float:
    """Return the setting that a claim wants: the requested one, after its lease the safe one if stricter."""
    setting, safe, ends_s = wish
    if now_s < ends_s:
        return setting
    return max(setting, safe) if kind is KnobKind.FAN else min(setting, safe)


class Crash(BaseException):
    """The process dies here: nothing of ours may catch it."""


class MortalKnob(FakeKnob):
    """Dies before or after the write that is named."""

    def __init__(self, kind: KnobKind, found: float | None) -> None:
        super().__init__(UUIDS, kind=kind, name=kind.value, found=found, supported=SUPPORTED[kind])
        self.dies: str = ""

    def write(self, uuid: str, setting: float | None) -> None:
        if self.dies == "before":
            raise Crash
        super().write(uuid, setting)
        # Unset is unset here, whatever a person had: found settings are put back by value.
        self.settings[uuid] = setting
        if self.dies == "after":
            raise Crash


class Lives(RuleBasedStateMachine):
    @initialize(clock=BY_HAND[KnobKind.CLOCK], power=BY_HAND[KnobKind.POWER], fan=BY_HAND[KnobKind.FAN])
    def begin(self, clock: float | None, power: float, fan: float | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="railwatch-lives-"))
        self.knobs = {
            kind: MortalKnob(kind, found)
            for kind, found in ((KnobKind.CLOCK, clock), (KnobKind.POWER, power), (KnobKind.FAN, fan))
        }
        first, *others = self.knobs.values()
        self.rig = Rig(self.folder, knob=first, others=tuple(others))
        self.human: dict[tuple[KnobKind, str], float | None] = {
            (kind, uuid): knob.settings[uuid] for kind, knob in self.knobs.items() for uuid in UUIDS
        }
        self.asked: dict[tuple[Key, str], list[Asked]] = {}
        # What a person set over a claim, and whose claims those were.
        self.overruled: set[Key] = set()
        self.bound: dict[Key, set[str]] = {}

    def do(self, act: str, *arguments: object, **named: object) -> tuple[Action, ...] | None:
        """Call `act`; where the process dies of it, another one takes over, without knowing what was done."""
        try:
            done: tuple[Action, ...] = getattr(self.rig.actuator, act)(*arguments, **named)
        except Crash:
            self.begin_again(self.rig.run_id)
            return None
        return done

    def begin_again(self, run_id: str) -> None:
        for knob in self.knobs.values():
            knob.dies = ""
        self.rig.restart(run_id=run_id)

    def learn(self, incident: str, asked: dict[Key, Asked], done: tuple[Action, ...] | None, bound: set[Key]) -> None:
        """Learn what an incident may hold now: what was done for sure takes the place of what was asked before."""
        states = {} if done is None else {(KnobKind(one.knob), ENTITIES[one.entity_id]): one.state for one in done}
        for key, wish in asked.items():
            if states.get(key) in (ActionState.APPLIED, ActionState.RELAXED, ActionState.RENEWED):
                assert key not in bound, f"{incident} goes on over what a person set: {key}"
                self.asked[key, incident] = [wish]
                self.overruled.discard(key)
            elif done is None or states.get(key) is ActionState.FAILED:
                self.asked.setdefault((key, incident), []).append(wish)
                if key not in bound:
                    self.overruled.discard(key)

    @rule(kind=KINDS, incident=INCIDENTS, data=st.data(), lease_s=st.sampled_from([5.0, 60.0]))
    def claim(self, kind: KnobKind, incident: str, data: st.DataObject, lease_s: float) -> None:
        self.ask(kind, incident, data.draw(WANTED[kind]), lease_s)

    def ask(self, kind: KnobKind, incident: str, wanted: float, lease_s: float) -> None:
        ends_s = self.rig.clock.monotonic_s() + lease_s
        wish = nearest(kind, wanted), nearest(kind, DEFAULT_LIMITS[kind].safe_ratio * max(SUPPORTED[kind])), ends_s
        bound = self.bound_to(incident)
        done = self.do("apply", cap(wanted, kind=kind, incident=incident, gpus=GPUS[:2], lease_s=lease_s))
        self.learn(incident, {(kind, uuid): wish for uuid in UUIDS}, done, bound)

    @rule(kind=KINDS, place=PLACES, data=st.data(), trouble=st.sampled_from(["", "write", "lost"]), dies=st.booleans())
    def a_person_overrules_a_claim(
        self, kind: KnobKind, place: int, data: st.DataObject, trouble: str, *, dies: bool
    ) -> None:
        """Do what chance alone brings about once in thousands of lives; the process may die once it knows of it."""
        self.mend(kind)
        self.ask(kind, "a", data.draw(WANTED[kind]), 60.0)
        self.fail(kind, trouble)
        self.ask(kind, "a", data.draw(WANTED[kind]), 60.0)
        self.mend(kind)
        self.set_by_hand(kind, place, data.draw(BY_HAND[kind]))
        self.ask(kind, "a", data.draw(WANTED[kind]), 60.0)
        if dies:
            self.begin_again(self.rig.run_id)
        self.ask(kind, "a", data.draw(WANTED[kind]), 60.0)

    @rule(incident=INCIDENTS)
    def renew(self, incident: str) -> None:
        ends_s = self.rig.clock.monotonic_s() + 60.0
        before = {key: wishes for (key, name), wishes in self.asked.items() if name == incident}
        bound = self.bound_to(incident)
        done = self.do("renew", incident, lease_s=60.0)
        for key, wishes in before.items():
            fresh = [(setting, safe, ends_s) for setting, safe, _ in wishes]
            self.learn(incident, {key: fresh[0]}, done, bound)
            if self.asked[key, incident] != wishes:
                self.asked[key, incident] = fresh if self.asked[key, incident] == fresh[:1] else [*wishes, *fresh]

    @rule(incident=INCIDENTS, place=PLACES, kind=st.one_of(st.none(), KINDS))
    def release(self, incident: str, place: int, kind: KnobKind | None) -> None:
        self.do("release", incident, entity_id=GPUS[place].entity_id, reason="over", kind=kind)

    @rule(wait_s=st.sampled_from([1.0, 10.0, 70.0]))
    def wait(self, wait_s: float) -> None:
        self.rig.clock.advance(wait_s)
        for action in self.do("tick") or ():
            held = self.holders(KnobKind(action.knob), ENTITIES[action.entity_id])
            assert action.state is not ActionState.EXPIRED or action.incident_id in held, "an end of a lease releases"

    @rule(kind=KINDS, place=PLACES, data=st.data())
    def a_person_sets(self, kind: KnobKind, place: int, data: st.DataObject) -> None:
        self.set_by_hand(kind, place, data.draw(BY_HAND[kind]))

    def set_by_hand(self, kind: KnobKind, place: int, setting: float | None) -> None:
        knob, uuid = self.knobs[kind], UUIDS[place]
        if knob.errors or setting in self.set_by_no_claim(kind, uuid):
            return
        knob.settings[uuid] = self.human[kind, uuid] = setting
        self.overruled.add((kind, uuid))
        self.bound[kind, uuid] = self.holders(kind, uuid)

    def bound_to(self, incident: str) -> set[Key]:
        return {key for key, incidents in self.bound.items() if incident in incidents}

    def set_by_no_claim(self, kind: KnobKind, uuid: str) -> set[float | None]:
        """Return a setting by a person that cannot be distinguished from one by railwatch, or from a reset."""
        same = {self.knobs[kind].settings[uuid]}
        for _, hold in self.journalled():
            if (hold.kind, hold.target.uuid) == (kind, uuid):
                same |= {hold.read_back} if hold.settled else {hold.before, hold.wanted}
                same |= {hold.found, None, max(SUPPORTED[kind])} if hold.lost else set()
                same |= set() if hold.claims else {hold.found}  # the pending release happens, by either process
        return same

    def holders(self, kind: KnobKind, uuid: str) -> set[str]:
        return {
            action.incident_id
            for action in self.rig.actuator.in_force()
            if (action.knob, ENTITIES[action.entity_id]) == (kind, uuid)
        }

    @rule(kind=KINDS, what=st.sampled_from(["read", "write", "lost"]))
    def fail(self, kind: KnobKind, what: str) -> None:
        knob = self.knobs[kind]
        knob.read_error = TransientError("busy") if what == "read" else None
        knob.write_error = TransientError("busy") if what == "write" else None
        knob.errors = {UUIDS[0]: DeviceLostError("lost")} if what == "lost" else {}

    @rule(kind=KINDS)
    def mend(self, kind: KnobKind) -> None:
        knob = self.knobs[kind]
        knob.read_error = knob.write_error = None
        knob.errors = {}

    @rule(kind=KINDS, when=st.sampled_from(["before", "after"]))
    def doom(self, kind: KnobKind, when: str) -> None:
        self.knobs[kind].dies = when

    @rule(same=st.booleans())
    def restart(self, *, same: bool) -> None:
        self.begin_again(self.rig.run_id if same else self.rig.run_id + "+")

    @precondition(lambda self: hasattr(self, "rig"))
    @invariant()
    def every_knob_is_a_persons_or_held_and_never_looser_than_that_person_left_it(self) -> None:
        for (kind, uuid), human in self.human.items():
            stands = self.knobs[kind].settings[uuid]
            if stands == human:
                continue
            assert (kind, uuid) not in self.overruled, f"{kind} stands at {stands}, a person set it to {human}"
            assert stands is not None
            assert stands in self.ours(kind), f"{kind} of {uuid} stands at {stands}, a person left it at {human}"
            stricter = stands > human if human is not None and kind is KnobKind.FAN else human is None or stands < human
            assert stricter, "looser than a person left it"
            held = {line.target.uuid for _, line in self.journalled() if line.kind is kind}
            assert uuid in held, "the journal does not know of it"

    def all_works(self) -> None:
        for kind in KnobKind:
            self.knobs[kind].dies = ""
            self.mend(kind)
        self.wait(60.0)
        owed = [hold for _, hold in self.journalled() if hold.owed or not hold.settled]
        assert not owed, "not done though everything works"

    @rule()
    def once_all_works_the_strictest_claim_holds(self) -> None:
        self.all_works()
        now_s = self.rig.clock.monotonic_s()
        for (kind, uuid), human in self.human.items():
            key, stands = (kind, uuid), self.knobs[kind].settings[uuid]
            holders = self.holders(kind, uuid)
            if key in self.overruled or not holders:
                assert stands == human, f"{kind} stands at {stands}, a person left it at {human}"
                continue
            allowed = set()
            for wishes in itertools.product(*(self.asked[key, incident] for incident in holders)):
                settings_ = [safest(kind, wish, now_s) for wish in wishes] + ([] if human is None else [human])
                allowed.add(max(settings_) if kind is KnobKind.FAN else min(settings_))
            assert stands in allowed, f"{kind} stands at {stands}, expected one of {allowed}"

    def ours(self, kind: KnobKind) -> set[float]:
        rail = DEFAULT_LIMITS[kind].min_ratio * max(SUPPORTED[kind])
        return {setting for setting in SUPPORTED[kind] if setting >= rail}

    def journalled(self) -> tuple[tuple[str, HeldKnob], ...]:
        return self.rig.journal.leftovers(now_s=0.0, now_ns=0)

    def teardown(self) -> None:
        """In the end everything works again and everybody lets go."""
        if not hasattr(self, "rig"):
            return
        self.once_all_works_the_strictest_claim_holds()
        self.rig.actuator.release_all(reason="end")
        assert {key: self.knobs[key[0]].settings[key[1]] for key in self.human} == self.human
        assert self.rig.actuator.in_force() == ()
        self.rig.restart(run_id="the run after")
        assert [action for action in self.rig.recovered if action.state is not ActionState.RELEASED] == []
        assert self.journalled() == ()
        self.rig.journal.close()
        shutil.rmtree(self.folder)


Lives.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLives = Lives.TestCase
