"""Work queue of the responder: waiting and begun work, held switches and reports, in one SQLite file.

Every change is one transaction that is on disk before anything is done outside. The read position in the guard's
journal is written in the same transaction as the work that came of it, and a report in the same one as the change that
it reports: a kill at any point neither loses nor repeats either.
"""

import json
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agent.responding.pacing import is_due, pause_s
from agent.responding.work import ActuatorCounts, HeldSwitch, Task, Work, WorkPhase, action_of, claim_of
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_text
from telemetry.record_journal import Position
from telemetry.record_json import from_json, to_json
from telemetry.records import Action, ActionState, Decision, Incident, IncidentState
from telemetry.store.sqlite import open_database, open_read_only, transaction

logger = logging.getLogger(__name__)

FILE_NAME = "responder.sqlite"
_VERSION = 1
_WHAT = "work queue of the responder"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS place (journal TEXT PRIMARY KEY, position TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS incidents (id TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS work (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE, actuator TEXT NOT NULL, task TEXT NOT NULL,
    phase TEXT NOT NULL, decision TEXT NOT NULL, incident TEXT, incident_id TEXT NOT NULL, tries INTEGER NOT NULL,
    due_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS work_phase ON work (phase, actuator, seq);
CREATE TABLE IF NOT EXISTS holds (
    actuator TEXT NOT NULL, target TEXT NOT NULL, hold TEXT NOT NULL, PRIMARY KEY (actuator, target));
CREATE TABLE IF NOT EXISTS barred (
    actuator TEXT NOT NULL, incident_id TEXT NOT NULL, PRIMARY KEY (actuator, incident_id));
CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL)
"""
_OWED = """
SELECT EXISTS (SELECT 1 FROM holds) OR EXISTS (SELECT 1 FROM outbox) OR EXISTS (SELECT 1 FROM work WHERE phase <> ?)
"""
# heuristic: finished work is remembered so that it is not done again, far longer than a journal is read again.
REMEMBER_NS = 30 * 86_400 * NS_PER_S
_HOLD: TypeAdapter[HeldSwitch] = TypeAdapter(HeldSwitch)


def is_owed(folder: Path) -> bool:
    """Return True if an earlier run left work or held switches there, or if the file cannot be read."""
    path = folder / FILE_NAME
    if not path.exists():
        return False
    try:
        with closing(open_read_only(path, version=_VERSION)) as file:
            return bool(file.execute(_OWED, (WorkPhase.OVER.value,)).fetchone()[0])
    except (EnvironmentLacksError, sqlite3.Error):
        return True  # the responder that is started then reports why


class WorkQueue:
    """Work queue of one state folder; any thread may use it, but only one process.

    Raises
    ------
    EnvironmentLacksError
        The file cannot be written, or another process uses it.
    TransientError
        From every change, if the disk is full; the change is then undone.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._file = open_database(path, schema=_SCHEMA, version=_VERSION)
        try:
            # FULL: a drain outlives a power cut of this node, so its entry has to.
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("BEGIN EXCLUSIVE")
            self._file.execute("COMMIT")
        except sqlite3.Error as err:
            self._file.close()
            raise EnvironmentLacksError(f"{path}: {err}; expected no other responder on this folder") from err

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    # Input.

    def position(self, journal: str) -> Position | None:
        """Return the read position in a journal, None if nothing of it was read."""
        rows = self._rows("SELECT position FROM place WHERE journal = ?", journal)
        return tuple(json.loads(rows[0][0])) if rows else None

    def take_in(
        self,
        works: Sequence[Work],
        incidents: Iterable[Incident],
        *,
        journal: str,
        position: Position,
        now_ns: int,
        actions: Sequence[Action] = (),
    ) -> int:
        """Keep new work and the read position, both or neither; return the number of new entries."""
        with self._lock, transaction(self._file, _WHAT):
            for incident in incidents:
                self._keep_incident(incident)
            before = self._file.total_changes
            for work in works:
                self._file.execute(
                    "INSERT OR IGNORE INTO work "
                    "(token, actuator, task, phase, decision, incident, incident_id, tries, due_ns, changed_ns) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?)",
                    (
                        work.token,
                        work.actuator,
                        work.task.value,
                        WorkPhase.WAITING.value,
                        json_text(to_json(work.decision)),
                        None if work.incident is None else json_text(to_json(work.incident)),
                        work.decision.incident_id,
                        now_ns,
                    ),
                )
            fresh = self._file.total_changes - before
            self._report(actions)
            self._file.execute("INSERT OR REPLACE INTO place VALUES (?, ?)", (journal, json_text(list(position))))
            self._file.execute(
                "DELETE FROM work WHERE phase = ? AND changed_ns < ?", (WorkPhase.OVER.value, now_ns - REMEMBER_NS)
            )
        return fresh

    def drop_waiting(self, *, now_ns: int) -> None:
        """Drop waiting work and its incidents: they belong to a simulated node that no longer exists."""
        with self._lock, transaction(self._file, _WHAT):
            self._file.execute(
                "UPDATE work SET phase = ?, changed_ns = ? WHERE phase = ?",
                (WorkPhase.OVER.value, now_ns, WorkPhase.WAITING.value),
            )
            self._file.execute("DELETE FROM incidents")
            self._file.execute("DELETE FROM barred")

    def incident(self, incident_id: str) -> Incident | None:
        """Return the newest record of an incident; None if it is unknown or closed."""
        rows = self._rows("SELECT record FROM incidents WHERE id = ?", incident_id)
        record = from_json(json.loads(rows[0][0])) if rows else None
        return record if isinstance(record, Incident) else None

    def sent_for(self, incident_id: str, actuator: str) -> tuple[Work, ...]:
        """Return the messages of one actuator for an incident, without recoveries."""
        query = f"{_SELECT} WHERE incident_id = ? AND actuator = ? AND task = ? ORDER BY seq"
        return tuple(_work(row) for row in self._rows(query, incident_id, actuator, Task.SEND.value))

    # Progress.

    def waiting(self, actuator: str) -> tuple[tuple[Work, int], ...]:
        """Return the waiting work of an actuator in order of arrival, each with the time at which it is due."""
        return self._in_phase(actuator, WorkPhase.WAITING)

    def begun(self, actuator: str) -> tuple[Work, ...]:
        """Return work that was begun and never ended: an earlier process was killed."""
        return tuple(work for work, _ in self._in_phase(actuator, WorkPhase.BEGUN))

    def begin(self, work: Work, *, now_ns: int) -> None:
        """Mark work as begun."""
        self._move(work, WorkPhase.BEGUN, due_ns=0, now_ns=now_ns)

    def put_back(self, work: Work, *, due_ns: int, now_ns: int, actions: Sequence[Action] = ()) -> None:
        """Mark work to be retried at `due_ns`."""
        self._move(work, WorkPhase.WAITING, due_ns=due_ns, now_ns=now_ns, actions=actions)

    def end(self, work: Work, *, now_ns: int, actions: Sequence[Action]) -> None:
        """Mark work as finished, and keep its reports."""
        self._move(work, WorkPhase.OVER, due_ns=0, now_ns=now_ns, actions=actions)

    def _move(self, work: Work, phase: WorkPhase, *, due_ns: int, now_ns: int, actions: Sequence[Action] = ()) -> None:
        with self._lock, transaction(self._file, _WHAT):
            self._file.execute(
                "UPDATE work SET phase = ?, tries = ?, due_ns = ?, changed_ns = ? WHERE token = ?",
                (phase.value, work.tries, due_ns, now_ns, work.token),
            )
            self._report(actions)

    def holds(self, actuator: str) -> tuple[HeldSwitch, ...]:
        """Return the held switches of one actuator."""
        rows = self._rows("SELECT hold FROM holds WHERE actuator = ?", actuator)
        return tuple(_HOLD.validate_json(row[0]) for row in rows)

    def held(self) -> tuple[tuple[str, str], ...]:
        """Return actuator and target of every held switch."""
        rows = self._rows("SELECT actuator, target FROM holds ORDER BY 1, 2")
        return tuple((actuator, target) for actuator, target in rows)

    def keep_hold(
        self,
        hold: HeldSwitch,
        *,
        now_ns: int,
        over: Work | None = None,
        actions: Sequence[Action] = (),
        barred: Iterable[str] = (),
    ) -> None:
        """Keep a switch, together with the work that this ends and the reports of it."""
        with self._lock, transaction(self._file, _WHAT):
            if not hold.is_over:
                self._file.execute(
                    "INSERT OR REPLACE INTO holds VALUES (?, ?, ?)",
                    (hold.actuator, hold.target, _HOLD.dump_json(hold, by_alias=True).decode()),
                )
            else:
                self._file.execute("DELETE FROM holds WHERE actuator = ? AND target = ?", (hold.actuator, hold.target))
            self._file.executemany(
                "INSERT OR IGNORE INTO barred VALUES (?, ?)", [(hold.actuator, incident) for incident in barred]
            )
            if over is not None:
                self._file.execute(
                    "UPDATE work SET phase = ?, changed_ns = ? WHERE token = ?",
                    (WorkPhase.OVER.value, now_ns, over.token),
                )
            self._report(actions)

    def is_barred(self, actuator: str, incident_id: str) -> bool:
        """Return True if someone else switched off what this incident had switched on."""
        return bool(self._rows("SELECT 1 FROM barred WHERE actuator = ? AND incident_id = ?", actuator, incident_id))

    # Reports.

    def outbox(self) -> tuple[tuple[int, Action], ...]:
        """Return the reports that are not yet published, in order."""
        rows = self._rows("SELECT seq, record FROM outbox ORDER BY seq")
        records = ((seq, from_json(json.loads(text))) for seq, text in rows)
        return tuple((seq, record) for seq, record in records if isinstance(record, Action))

    def note_published(self, seq: int) -> None:
        """Drop the reports up to this one: they are published."""
        with self._lock, transaction(self._file, _WHAT):
            self._file.execute("DELETE FROM outbox WHERE seq <= ?", (seq,))

    def count(self, phase: WorkPhase) -> int:
        """Return the number of entries in that phase."""
        return int(self._rows("SELECT count(*) FROM work WHERE phase = ?", phase.value)[0][0])

    def _in_phase(self, actuator: str, phase: WorkPhase) -> tuple[tuple[Work, int], ...]:
        query = f"{_SELECT} WHERE phase = ? AND actuator = ? ORDER BY seq"
        return tuple((_work(row), row[6]) for row in self._rows(query, phase.value, actuator))

    def _rows(self, query: str, *arguments: str) -> list[Any]:
        with self._lock:
            return self._file.execute(query, arguments).fetchall()

    def _keep_incident(self, incident: Incident) -> None:
        if incident.state is IncidentState.CLOSED:
            self._file.execute("DELETE FROM incidents WHERE id = ?", (incident.id,))
            self._file.execute("DELETE FROM barred WHERE incident_id = ?", (incident.id,))
        else:
            self._file.execute(
                "INSERT OR REPLACE INTO incidents VALUES (?, ?)", (incident.id, json_text(to_json(incident)))
            )

    def _report(self, actions: Sequence[Action]) -> None:
        self._file.executemany(
            "INSERT INTO outbox (record) VALUES (?)", [(json_text(to_json(action)),) for action in actions]
        )


class WorkResults:
    """Results of one actuator's work: counted, logged and reported; failed work is put back for a retry."""

    def __init__(self, actuator: str, queue: WorkQueue, clock: Clock, counts: ActuatorCounts) -> None:
        self._actuator = actuator
        self._queue = queue
        self._clock = clock
        self._counts = counts

    def due(self) -> Iterator[Work]:
        """Yield the waiting work that is due, in order of arrival."""
        for work, due_ns in self._queue.waiting(self._actuator):
            if is_due(due_ns, self._clock.utc_ns()):
                yield work

    def waits_s(self) -> list[float]:
        """Return the seconds until each piece of waiting work is due."""
        now_ns = self._clock.utc_ns()
        return [max(0.0, (due_ns - now_ns) / NS_PER_S) for _, due_ns in self._queue.waiting(self._actuator)]

    def again(self, work: Work, why: str) -> None:
        """Put failed work back for a retry; report it the first time."""
        failed = replace(work, tries=work.tries + 1)
        self._counts.retried += 1
        now_ns = self._clock.utc_ns()
        due_ns = now_ns + round(pause_s(failed.tries) * NS_PER_S)
        reports = () if work.tries else (self._action(work, ActionState.FAILED, f"{why}; retrying"),)
        logger.warning("%s failed, retrying in %g s: %s", self._actuator, pause_s(failed.tries), why)
        self._queue.put_back(failed, due_ns=due_ns, now_ns=now_ns, actions=reports)

    def end(self, work: Work, state: ActionState, reason: str) -> None:
        """Finish work and report its result."""
        self._counts.count(state)
        level = logging.WARNING if state in (ActionState.FAILED, ActionState.REFUSED) else logging.INFO
        logger.log(level, "%s %s: %s", self._actuator, state, reason)
        self._queue.end(work, now_ns=self._clock.utc_ns(), actions=(self._action(work, state, reason),))

    def _action(self, work: Work, state: ActionState, reason: str) -> Action:
        return action_of(
            knob=self._actuator,
            claim=claim_of(work, lease_s=0.0),
            state=state,
            reason=reason,
            time_ns=self._clock.utc_ns(),
            mode=work.decision.mode,
        )


_SELECT = "SELECT token, actuator, task, decision, incident, tries, due_ns FROM work"


def _work(row: tuple[str, str, str, str, str | None, int, int]) -> Work:
    decision = from_json(json.loads(row[3]))
    incident = None if row[4] is None else from_json(json.loads(row[4]))
    if not isinstance(decision, Decision) or not (incident is None or isinstance(incident, Incident)):
        raise ValueError(f"work {row[0]}: expected a decision record")
    return Work(token=row[0], actuator=row[1], task=Task(row[2]), decision=decision, incident=incident, tries=row[5])
