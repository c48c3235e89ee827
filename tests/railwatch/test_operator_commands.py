"""Commands are appended to a journal, and the sender waits until they are taken or the time is over."""

from pathlib import Path

from fleet.ledger_file import CommandReader, command_writer, service_runs
from railwatch.operator.commands import send_and_wait
from telemetry.clock import SystemClock
from telemetry.commands import CommandVerb, new_command
from telemetry.spool.spool import Spool

RESET = new_command(CommandVerb.RESET_BREAKER, "", who="ana", why="PDU is back", now_ns=1)


def test_a_command_is_written_before_the_sender_waits_for_it(tmp_path: Path) -> None:
    reader = CommandReader(tmp_path, ())

    def is_taken() -> bool:
        return reader.read() == (RESET,)

    assert send_and_wait(command_writer(tmp_path), [RESET], is_taken, within_s=10.0, clock=SystemClock())


def test_a_command_that_is_not_taken_in_time_stays_in_the_journal(tmp_path: Path) -> None:
    sent = send_and_wait(
        command_writer(tmp_path), [RESET], lambda: False, within_s=0.0, every_s=0.01, clock=SystemClock()
    )
    assert not sent
    assert CommandReader(tmp_path, ()).read() == (RESET,)


def test_a_fleet_service_runs_while_its_spool_is_open(tmp_path: Path) -> None:
    assert not service_runs(tmp_path)
    spool = Spool(tmp_path / "spool")
    assert service_runs(tmp_path)
    spool.close()
    assert not service_runs(tmp_path)
