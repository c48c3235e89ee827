"""Random lives of the actuator: whatever happens, after the last claim is out the knob is as it was found."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.errors import DeviceLostError, TransientError
from tests.agent.actuation.rig import GPUS, Rig, cap
from tests.agent.fakes import FakeKnob

INCIDENTS = st.sampled_from(["a", "b", "c"])
APPLY = st.tuples(st.just("apply"), INCIDENTS, st.sampled_from([300.0, 802.0, 1057.0, 1201.0, 1530.0]))
RELEASE = st.tuples(st.just("release"), INCIDENTS, st.just(0.0))
RENEW = st.tuples(st.just("renew"), INCIDENTS, st.just(0.0))
WAIT = st.tuples(st.just("wait"), st.just(""), st.sampled_from([1.0, 40.0, 130.0]))
FAIL = st.tuples(st.just("fail"), st.sampled_from(["read", "write", "lost"]), st.just(0.0))
MEND = st.tuples(st.just("mend"), st.just(""), st.just(0.0))
RESTART = st.tuples(st.just("restart"), st.sampled_from(["same run", "next run"]), st.just(0.0))
Step = tuple[str, str, float]


def take(rig: Rig, step: Step) -> None:
    kind, what, number = step
    if kind == "apply":
        rig.actuator.apply(cap(number, incident=what, gpus=GPUS[:2]))
    elif kind == "release":
        rig.actuator.release_incident(what, reason="over")
    elif kind == "renew":
        rig.actuator.renew(what, lease_s=60.0)
    elif kind == "wait":
        rig.clock.advance(number)
        rig.actuator.tick()
    elif kind == "fail":
        rig.knob.read_error = TransientError("busy") if what == "read" else None
        rig.knob.write_error = TransientError("busy") if what == "write" else None
        rig.knob.errors = {GPUS[0].uuid: DeviceLostError("lost")} if what == "lost" else {}
    elif kind == "mend":
        rig.knob.read_error = rig.knob.write_error = None
        rig.knob.errors = {}
    else:
        rig.restart(run_id=rig.run_id if what == "same run" else rig.run_id + "+")


@settings(max_examples=150)
@given(
    steps=st.lists(st.one_of(APPLY, RELEASE, RENEW, WAIT, FAIL, MEND, RESTART), max_size=25),
    found_mhz=st.sampled_from([None, 1005.0, 1380.0, 1530.0]),
    readable=st.booleans(),
)
def test_after_the_last_claim_is_out_the_knob_is_as_it_was_found(
    steps: list[Step],
    found_mhz: float | None,
    readable: bool,  # noqa: FBT001 -- drawn by hypothesis
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder), knob=FakeKnob(found=found_mhz, readable=readable))
        # What no getter shows cannot be known to be lower than a cap.
        highest_mhz = found_mhz if found_mhz is not None and readable else 1530.0
        for step in steps:
            take(rig, step)
            for uuid, setting in rig.knob.settings.items():
                assert setting == found_mhz or (setting is not None and 802.0 <= setting <= highest_mhz), uuid
        take(rig, ("mend", "", 0.0))
        rig.actuator.release_all(reason="end")
        take(rig, ("wait", "", 40.0))
        assert set(rig.knob.settings.values()) == {found_mhz}
        assert rig.actuator.in_force() == ()
        assert rig.actuator.next_wake_s() is None
        rig.restart(run_id="the run after")
        assert rig.recovered == ()
        rig.journal.close()
