"""Random lives of a switch: claims, kills, failures and people, in any order."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.responding.port import SwitchOwner
from agent.responding.work import Task
from telemetry.errors import NotPermittedError
from tests.agent.responding.rig import BUSY, Killed, Rig

REFUSED = NotPermittedError("no such right")
INCIDENTS = ("a", "b", "c")
STEP = st.one_of(
    st.tuples(st.just("engage"), st.sampled_from(INCIDENTS)),
    st.tuples(st.just("release"), st.sampled_from(INCIDENTS)),
    st.tuples(st.just("person"), st.sampled_from(["drains", "resumes"])),
    st.tuples(st.just("fail"), st.sampled_from(["before", "after", "kill", "refuse"])),
    st.tuples(st.just("mend"), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from(["1", "40"])),
    st.tuples(st.just("restart"), st.just("")),
)


def take(rig: Rig, kind: str, what: str) -> None:
    match kind:
        case "engage":
            rig.ask(Task.ENGAGE, incident=what)
        case "release":
            rig.ask(Task.RELEASE, incident=what)
        case "person":
            rig.switch.by_person(SwitchOwner.OTHERS if what == "drains" else SwitchOwner.FREE)
        case "fail":
            rig.switch.error = BUSY if what == "before" else None
            rig.switch.late_error = {"after": BUSY, "kill": Killed(), "refuse": REFUSED}.get(what)
        case "mend":
            rig.switch.error = rig.switch.late_error = None
        case "wait":
            rig.clock.advance(float(what))
        case _:
            rig.restart()
    try:
        rig.step()
    except Killed:
        rig.restart()


# In memory: a journal on the disk costs its milliseconds at every step.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=16))
def test_nothing_is_left_behind_and_no_drain_of_others_is_touched(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rig = Rig(Path(folder))
        for kind, what in steps:
            before = rig.switch.held
            take(rig, kind, what)
            assert rig.switch.foul == []
            if before is SwitchOwner.OTHERS and kind != "person":
                assert rig.switch.held is SwitchOwner.OTHERS
            # A claim in the journal for whatever of ours stands outside.
            assert rig.switch.held is not SwitchOwner.OURS or not rig.switching.hold.is_over
        take(rig, "mend", "")
        for name in INCIDENTS:
            take(rig, "release", name)
        for _ in range(8):
            take(rig, "wait", "40")
        assert rig.switch.held is not SwitchOwner.OURS
        assert rig.switching.hold.is_over
        rig.restart()
        assert rig.switching.hold.is_over
        rig.journal.close()
