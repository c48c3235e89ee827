"""Replay protection of an agent: nonces until they expire, terms, and actions begun in the last day, on disk.

They are written before a request is carried out, so a restart forgets none. A nonce is dropped once its request has
expired, and the latest dropped expiry is kept: a request that expires earlier is refused, even if the clock is set
back. Without this file an agent does not know its earlier requests, so it refuses every request that was issued before
it created the file.
"""

import json
import os
from pathlib import Path
from typing import Any

from fleet.control.request import NodeRequest
from rules.limits.node import DAY_NS
from rules.policy.model import ActionClass
from telemetry.atomic_files import open_replaced, write_whole
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.json_text import json_bytes

# heuristic: a few thousand requests; then the entries that are still needed are rewritten.
COMPACT_BYTES = 256 << 10
# heuristic: a service that renews 64 caps four times a minute needs 300 within the longest lifetime of a request.
# Further requests are refused: a forgotten nonce could be replayed.
NONCES_MAX = 4096


class ReplayProtection:
    """Nonces, terms and actions of one agent in a file that it alone writes; not thread-safe, `Admission` has a lock.

    Raises
    ------
    EnvironmentLacksError
        The file cannot be written.
    """

    def __init__(self, path: Path, *, now_ns: int) -> None:
        self._path = path
        self._nonces: dict[str, int] = {}
        self._terms: dict[str, tuple[int, str]] = {}
        self._acted_ns: list[tuple[ActionClass, int]] = []
        self._floor_ns = 0
        self._begun_ns = now_ns
        self._size = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._replay()
            self._file = self._rewritten()
        except OSError as err:
            raise EnvironmentLacksError(f"{path}: {err.strerror}; expected a file that can be written") from err

    @property
    def terms(self) -> dict[str, tuple[int, str]]:
        """Newest term and its instance, by service."""
        return dict(self._terms)

    def fenced(self, request: NodeRequest) -> str:
        """Return the reason if another process of this service has replaced the sender, empty if none has."""
        term, instance = self._terms.get(request.fleet, (0, ""))
        if request.term < term:
            return f"term {request.term} of {request.fleet} is over: term {term} has begun"
        if request.term == term and request.instance != instance:
            return f"another process of {request.fleet} holds term {term}"
        return ""

    def replayed(self, request: NodeRequest) -> bool:
        """Return True if this request was received before, or may have been."""
        return (
            request.nonce in self._nonces or request.expires_ns <= self._floor_ns or request.issued_ns < self._begun_ns
        )

    def take(self, request: NodeRequest, *, forget_before_ns: int) -> None:
        """Save a request on disk; TransientError where that fails, and then it must not be carried out."""
        self._forget(forget_before_ns)
        if len(self._nonces) >= NONCES_MAX:
            raise TransientError(f"more than {NONCES_MAX} requests within the lifetime of one")
        self._nonces[request.nonce] = request.expires_ns
        self._terms[request.fleet] = (request.term, request.instance)
        self._append(
            {
                "nonce": request.nonce,
                "expires_ns": request.expires_ns,
                **_term(request.fleet, request.term, request.instance),
            }
        )

    def acted_ns(self, now_ns: int) -> tuple[tuple[ActionClass, int], ...]:
        """Return the new actions of the last day with their times."""
        self._acted_ns = [one for one in self._acted_ns if now_ns - one[1] < DAY_NS]
        return tuple(self._acted_ns)

    def note_action(self, action: ActionClass, now_ns: int) -> None:
        """Save the beginning of a new action; TransientError where that fails, and then it must not begin."""
        self._acted_ns.append((action, now_ns))
        self._append({"acted": action.value, "at_ns": now_ns})

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _append(self, fields: dict[str, object]) -> None:
        try:
            if self._size > COMPACT_BYTES:
                fresh = self._rewritten()
                os.close(self._file)
                self._file = fresh
            else:
                line = _line(fields)
                write_whole(self._file, line)
                self._size += len(line)
                os.fdatasync(self._file)
        except OSError as err:
            self._size = COMPACT_BYTES + 1  # half a line may be there: rewrite before the next
            raise TransientError(f"{self._path}: {err.strerror}") from err

    def _forget(self, before_ns: int) -> None:
        gone = [nonce for nonce, expires_ns in self._nonces.items() if expires_ns < before_ns]
        for nonce in gone:
            self._floor_ns = max(self._floor_ns, self._nonces.pop(nonce))

    def _replay(self) -> None:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        known = False
        for text in lines:
            try:
                line: dict[str, Any] = json.loads(text)
                if "begun_ns" in line:
                    self._begun_ns, self._floor_ns, known = int(line["begun_ns"]), int(line["floor_ns"]), True
                if "nonce" in line:
                    self._nonces[str(line["nonce"])] = int(line["expires_ns"])
                if "acted" in line:
                    self._acted_ns.append((ActionClass(line["acted"]), int(line["at_ns"])))
                if "fleet" in line:
                    self._terms[str(line["fleet"])] = int(line["term"]), str(line["instance"])
            except (ValueError, KeyError, TypeError):
                continue  # torn by a kill: its request was not carried out
        if not known:
            self._nonces.clear()

    def _rewritten(self) -> int:
        lines = [_line({"begun_ns": self._begun_ns, "floor_ns": self._floor_ns})]
        lines += [_line(_term(fleet, *term)) for fleet, term in self._terms.items()]
        lines += [_line({"nonce": nonce, "expires_ns": expires_ns}) for nonce, expires_ns in self._nonces.items()]
        lines += [_line({"acted": action.value, "at_ns": at_ns}) for action, at_ns in self._acted_ns]
        body = b"".join(lines)
        descriptor = open_replaced(self._path, body)
        self._size = len(body)
        return descriptor


def _term(fleet: str, term: int, instance: str) -> dict[str, object]:
    return {"fleet": fleet, "term": term, "instance": instance}


def _line(fields: dict[str, object]) -> bytes:
    return json_bytes(fields) + b"\n"
