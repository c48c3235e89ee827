import json
from pathlib import Path

import pytest

from agent.actuation.actuator import CHANGED_BY_OTHERS
from agent.actuation.blocklist import BLOCKED_MAX, Block
from agent.actuation.knob_log import FILE_NAME, KnobLog
from telemetry.errors import DeviceLostError, EnvironmentLacksError
from telemetry.gpu import KnobKind, ReleasedBy
from telemetry.records import ActionState
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap
from tests.agent.fakes import FakeKnob


class WatchingKnob(FakeKnob):
    """Reads the journal file at the moment of each write to the hardware."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.journalled: list[dict[str, object]] = []

    def write(self, uuid: str, setting: float | None) -> None:
        lines = [json.loads(line) for line in self.path.read_bytes().splitlines()]
        self.journalled.append(next(line for line in reversed(lines) if line["uuid"] == uuid))
        super().write(uuid, setting)


def test_what_was_found_and_what_will_be_stand_in_the_journal_before_the_hardware_is_written(tmp_path: Path) -> None:
    knob = WatchingKnob(tmp_path / FILE_NAME)
    rig = Rig(tmp_path, knob=knob)
    rig.actuator.apply(cap(gpus=GPUS))
    assert [line["uuid"] for line in knob.journalled] == [gpu.uuid for gpu in GPUS]
    assert all((line["found"], line["wanted"], line["settled"]) == (1530.0, 1057.0, False) for line in knob.journalled)


def test_a_journal_torn_at_any_byte_restores_what_was_found(tmp_path: Path) -> None:
    knob = FakeKnob()
    rig = Rig(tmp_path / "whole", knob=knob)
    rig.actuator.apply(cap(1200.0))
    rig.actuator.apply(cap(1057.0, incident="i-2"))
    rig.journal.close()
    data = (tmp_path / "whole" / FILE_NAME).read_bytes()
    first_cap_is_whole = data.index(b"\n") + 1
    for cut in range(first_cap_is_whole, len(data), 37):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(data[:cut])
        # A write follows its journal entry, so the newest whole entry shows what is in force.
        newest = json.loads(data[:cut].splitlines(keepends=True)[data[:cut].count(b"\n") - 1])
        knob.settings[UUID] = newest["wanted"]
        torn = Rig(folder, knob=knob, run_id="the next run")
        assert knob.settings[UUID] == 1530.0
        torn.restart(run_id="the run after")
        assert not torn.recovered
        torn.journal.close()


def test_a_kill_between_the_journal_and_the_write_restores_what_was_found(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    lines = (tmp_path / FILE_NAME).read_bytes().splitlines(keepends=True)
    for in_force in (1530.0, 1057.0):
        rig.journal.close()
        (tmp_path / FILE_NAME).write_bytes(lines[0])
        rig.knob.settings[UUID] = in_force
        rig.start()
        rig.restart(run_id="the next run")
        assert rig.in_force == 1530.0


def test_lines_that_cannot_be_read_are_counted_and_the_others_hold(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    rig.journal.close()
    path = tmp_path / FILE_NAME
    path.write_bytes(b"\x00\xff\n" + path.read_bytes() + b'{"uuid": 3}\n{"run')
    rig.run_id = "the next run"
    rig.start()
    assert rig.journal.unreadable == 3
    assert rig.in_force == 1530.0


def test_the_journal_stays_short_however_long_it_runs(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap(gpus=GPUS))
    for _ in range(500):
        rig.actuator.renew("i-1", lease_s=120.0)
        rig.actuator.tick()
    assert (tmp_path / FILE_NAME).stat().st_size < 300 << 10
    rig.restart(run_id="the next run")
    assert set(rig.knob.settings.values()) == {1530.0}
    assert (tmp_path / FILE_NAME).stat().st_size < 64 << 10
    rig.restart(run_id="the run after")
    assert (tmp_path / FILE_NAME).stat().st_size == 0


def test_a_second_writer_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    journal = KnobLog(tmp_path, run_id="a")
    with pytest.raises(EnvironmentLacksError, match="locked by another actuator"):
        KnobLog(tmp_path, run_id="b")
    journal.close()
    KnobLog(tmp_path, run_id="b").close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match=r"actuator\.journal"):
        KnobLog(tmp_path / "file" / "state", run_id="a")


def test_whom_a_person_overruled_stays_so_after_a_kill_also_where_nothing_is_held(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap(1200.0, incident="released"))
    rig.actuator.apply(cap(1057.0, incident="changed"))
    rig.actuator.release_incident("released", reason="a person said so", bar=True)
    rig.knob.settings[UUID] = 1380.0
    rig.actuator.renew("changed", lease_s=60.0)
    for run_id in ("run-1", "the next run"):
        rig.restart(run_id=run_id)
        assert rig.recovered == ()
        for incident, reason in (("released", "a person said so"), ("changed", CHANGED_BY_OTHERS)):
            (action,) = rig.actuator.apply(cap(1005.0, incident=incident))
            assert (action.state, action.reason) == (ActionState.REFUSED, reason)
        assert rig.in_force == 1380.0
    assert [one.state for one in rig.actuator.apply(cap(incident="changed", gpus=GPUS[1:2]))] == [ActionState.APPLIED]


def test_the_block_of_an_operator_is_in_the_journal_before_the_hold_that_it_ends_is_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    whole = (tmp_path / FILE_NAME).read_bytes()
    rig.knob.settings[UUID] = 1380.0
    rig.actuator.renew("i-1", lease_s=60.0)
    rig.journal.close()
    added = (tmp_path / FILE_NAME).read_bytes()[len(whole) :].splitlines(keepends=True)
    (tmp_path / FILE_NAME).write_bytes(whole + added[0])  # it died in the middle
    rig.start()
    assert rig.actuator.apply(cap())[0].state is ActionState.REFUSED
    assert rig.in_force == 1380.0


def test_a_journal_full_of_bars_is_not_rewritten_at_every_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path)
    bars = [
        Block(kind=KnobKind.CLOCK, uuid=UUID, incident_id=f"i-{n}", reason="x" * 500) for n in range(BLOCKED_MAX + 10)
    ]
    rig.journal.append((), bars)
    rig.actuator.tick()
    rewritten: list[bool] = []
    monkeypatch.setattr(rig.journal, "_rewrite", lambda: rewritten.append(True))
    rig.journal.append((), bars[:1])
    rig.actuator.tick()
    assert not rewritten
    assert len(list(rig.journal.barred)) == BLOCKED_MAX


def test_blocks_that_find_no_room_are_counted_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reported: list[int] = []
    bars = [
        Block(kind=KnobKind.CLOCK, uuid=UUID, incident_id=f"i-{n}", reason="by hand") for n in range(BLOCKED_MAX + 2)
    ]
    journal = KnobLog(tmp_path, run_id="1", note_bars=reported.append)
    journal.append((), bars[:BLOCKED_MAX])
    journal.append((), bars[:1])
    assert (journal.barred.dropped, reported, caplog.records) == (0, [], []), (
        "said again of the same one, it takes no room"
    )
    journal.append((), bars[BLOCKED_MAX:])
    assert (journal.barred.dropped, reported) == (2, [1, 2])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"more than {BLOCKED_MAX}" in caplog.text
    assert [journal.barred.reason(KnobKind.CLOCK, UUID, f"i-{n}") for n in (0, 1, 2)] == [None, None, "by hand"]
    journal.close()
    again = KnobLog(tmp_path, run_id="2", note_bars=reported.append)
    assert (again.barred.dropped, len(list(again.barred)), reported) == (0, BLOCKED_MAX, [1, 2]), "counted once"
    again.close()


def test_a_line_without_the_cause_of_a_release_is_read_as_a_request(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    rig.knob.errors[UUID] = DeviceLostError("GPU is lost")
    rig.actuator.release_all(reason="end", by=ReleasedBy.ACTUATOR)
    rig.journal.close()
    path = tmp_path / FILE_NAME
    line = json.loads(path.read_bytes().splitlines()[-1])
    assert line.pop("released_by") == "actuator"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    del rig.knob.errors[UUID]
    rig.start()
    assert [(action.state, action.released_by) for action in rig.recovered] == [
        (ActionState.RELEASED, ReleasedBy.REQUEST)
    ]


def test_the_line_of_a_request_has_the_keys_that_earlier_versions_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.actuator.apply(cap())
    rig.actuator.release_all(reason="end")
    lines = (tmp_path / FILE_NAME).read_bytes().splitlines()
    assert all("released_by" not in json.loads(line) for line in lines)
