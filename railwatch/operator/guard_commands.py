"""A person's word on its way to the guard of this node: written down, then waited for until the guard has heard it."""

from threading import Event as Flag

from railwatch.session import Session
from rules.engine.operator_events import Say, Word, event_of
from telemetry.clock import SystemClock
from telemetry.errors import TransientError
from telemetry.records import Event

# The guard looks once a second, and says at once that it heard. Heuristic: what a busy machine may take beyond that.
ANSWER_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.1


class Answers:
    """Takes what people answer on the page of one run; satisfies `dashboards.page.source.AnswerPort`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def answer(self, decision_id: str, *, approve: bool, who: str, why: str) -> Event:
        """Return the guard a yes or a no to a decision that waits; TransientError where it does not hear."""
        say = Say.APPROVE if approve else Say.REJECT
        return tell_word(self._session, Word(say=say, decision_id=decision_id, who=who, why=why))


def tell_word(session: Session, word: Word) -> Event:
    """Write a word into the journal of people and wait until the guard has heard it; TransientError if it does not."""
    clock = SystemClock()
    event = event_of(word, clock.utc_ns())
    heard = session.journal_reader("guard")
    heard.skip_to_end()
    journal = session.journal_writer("person")
    journal.append(event)
    journal.close()
    until_s, wait = clock.monotonic_s() + ANSWER_WITHIN_S, Flag()
    while clock.monotonic_s() < until_s:
        if any(record.id == event.id for record in heard.read()):
            return event
        wait.wait(_LOOK_EVERY_S)
    raise TransientError(f"{session.run_dir}: the guard did not hear of it in {ANSWER_WITHIN_S:g} s; say it again")
