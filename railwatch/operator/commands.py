"""Sending commands of operators to the processes that carry them out, and waiting until they are taken."""

from collections.abc import Callable, Sequence
from threading import Event as Flag

from railwatch.run_context import RunContext
from telemetry.clock import Clock, SystemClock
from telemetry.commands import Command, CommandVerb, new_command
from telemetry.errors import TransientError
from telemetry.record_journal import RecordJournalWriter

# heuristic: the guard reads commands once a second and records them at once; the rest is for a busy machine.
GUARD_WITHIN_S = 10.0
LOOK_EVERY_S = 0.1


def send_and_wait(
    journal: RecordJournalWriter,
    commands: Sequence[Command],
    is_taken: Callable[[], bool],
    *,
    within_s: float,
    clock: Clock,
    every_s: float = LOOK_EVERY_S,
) -> bool:
    """Append commands to a journal, close it and wait; return False where they are not taken in time."""
    for command in commands:
        journal.append(command)
    journal.close()
    until_s, pause = clock.monotonic_s() + within_s, Flag()
    while not is_taken():
        if clock.monotonic_s() >= until_s:
            return False
        pause.wait(every_s)
    return True


def send_to_guard(context: RunContext, commands: Sequence[Command], *, clock: Clock | None = None) -> None:
    """Send commands to the guard of a run; TransientError where it does not record them in time."""
    reader = context.journal_reader("guard")
    reader.skip_to_end()
    missing = {command.id for command in commands}

    def is_taken() -> bool:
        missing.difference_update(record.id for record in reader.read())
        return not missing

    journal = context.journal_writer("person")
    if not send_and_wait(journal, commands, is_taken, within_s=GUARD_WITHIN_S, clock=clock or SystemClock()):
        raise TransientError(
            f"{context.run_dir}: the guard did not take the command within {GUARD_WITHIN_S:g} s; send it again"
        )


class PageApprovals:
    """Approvals and rejections from the page of one run; satisfies `dashboards.page.source.ApprovalPort`."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def answer(self, decision_id: str, *, approve: bool, who: str, why: str) -> Command:
        """Approve or reject a pending decision; TransientError where the guard does not take it."""
        verb = CommandVerb.APPROVE if approve else CommandVerb.REJECT
        command = new_command(verb, decision_id, who=who, why=why, now_ns=SystemClock().utc_ns())
        send_to_guard(self._context, [command])
        return command
