"""State of a node from lines that Slurm 22.05 printed."""

import pytest

from agent.responding.port import SwitchOwner
from agent.responding.schedulers.slurm import switch_state_of
from telemetry.errors import ActionRefusedError

LINE = (
    "NodeName=gpu0 Arch=x86_64 Version=22.05.8 OS=Linux 6.1 #1 SMP @0  RealMemory=100 State={state} ThreadsPerCore=1 "
    "Partitions=all  BootTime=2026-11-21T09:07:05 ExtSensorsTemp=n/s{reason}"
)


def line(state: str, reason: str = "", who: str = "root") -> str:
    reason_field = f" Reason={reason} [{who}@2026-11-22T01:28:40]" if reason else ""
    return LINE.format(state=state, reason=reason_field)


@pytest.mark.parametrize(
    ("text", "held", "token"),
    [
        (line("IDLE"), SwitchOwner.FREE, None),
        (line("MIXED+CLOUD"), SwitchOwner.FREE, None),
        (line("IDLE+DRAIN", "railwatch:00ff i-1 rail = low [x@y]"), SwitchOwner.OURS, "00ff"),
        (line("MIXED+DRAIN+NOT_RESPONDING", "railwatch:00ff i-1"), SwitchOwner.OURS, "00ff"),
        (line("DOWN+DRAIN", "railwatch:00ff i-1"), SwitchOwner.OURS, "00ff"),
        (line("IDLE+DRAIN", "new fans"), SwitchOwner.OTHERS, None),
        (line("IDLE+DRAIN", "see railwatch:00ff i-1"), SwitchOwner.OTHERS, None),
        (line("IDLE+DRAIN"), SwitchOwner.OTHERS, None),
        (line("DOWN", "person"), SwitchOwner.OTHERS, None),
        (line("DOWN*", "Not responding", "slurm"), SwitchOwner.FREE, None),
        (line("DOWN"), SwitchOwner.FREE, None),
        (line("IDLE+FAIL", "bad memory"), SwitchOwner.OTHERS, None),
        (line("IDLE+MAINT"), SwitchOwner.OTHERS, None),
        # The reason of an earlier drain stays behind in some versions; the flag decides.
        (line("IDLE", "railwatch:00ff i-1"), SwitchOwner.FREE, None),
    ],
)
def test_who_has_taken_a_node_out(text: str, held: SwitchOwner, token: str | None) -> None:
    standing = switch_state_of(text)
    assert (standing.held, standing.token) == (held, token)


def test_the_summary_names_reason_and_person() -> None:
    assert switch_state_of(line("IDLE+DRAIN", "new fans [x]", "ann")).summary == "idle+drain, 'new fans [x]' by ann"


def test_an_answer_without_a_state_is_refused() -> None:
    with pytest.raises(ActionRefusedError):
        switch_state_of("slurm_load_node: nothing")
