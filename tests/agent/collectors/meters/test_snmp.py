"""The SNMP session where an agent fails at one object of many, as no agent that can be run here does."""

import asyncio
from typing import Any

import pytest

from agent.collectors.meters.channel import Oid
from agent.collectors.meters.settings import PduSettings
from telemetry.errors import TransientError

pysnmp = pytest.importorskip("pysnmp.proto.rfc1902")

SICK: Oid = (1, 3, 6, 1, 99, 7)
OIDS: list[Oid] = [(1, 3, 6, 1, 99, number) for number in range(10)]


def answers(monkeypatch: pytest.MonkeyPatch, *, status: int, most: int = 10, sick: Oid | None = None) -> list[int]:
    """Let the agent give up a request that has too many objects, or the sick one; gives how many each asked for."""
    from agent.collectors.meters import snmp  # noqa: PLC0415 -- only with pysnmp

    asked: list[int] = []

    async def get_cmd(_engine: Any, _who: Any, _agent: Any, _context: Any, *oids: Oid, **_: Any) -> Any:
        asked.append(len(oids))
        if len(oids) > most or sick in oids:
            return None, status, 1, []
        return None, 0, 0, [(oid, pysnmp.Integer32(oid[-1])) for oid in oids]

    monkeypatch.setattr(snmp, "get_cmd", get_cmd)
    for wrapper in ("ObjectType", "ObjectIdentity"):
        monkeypatch.setattr(snmp, wrapper, lambda oid: oid)
    return asked


def get() -> Any:
    from agent.collectors.meters.snmp import PysnmpClient  # noqa: PLC0415 -- only with pysnmp

    async def ask() -> Any:
        session = PysnmpClient(PduSettings(name="p", host="127.0.0.1"))
        try:
            return await session.get(OIDS)
        finally:
            session.close()

    return asyncio.run(ask())


def test_one_object_that_the_agent_fails_at_is_absent_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, status=5, sick=SICK)
    assert get() == {oid: None if oid == SICK else oid[-1] for oid in OIDS}


def test_an_agent_with_small_answers_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, status=1, most=3)
    assert get() == {oid: oid[-1] for oid in OIDS}
    assert max(asked[1:]) <= 5


def test_an_agent_for_which_one_object_is_too_big_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, status=1, most=0)
    with pytest.raises(TransientError, match="error status 1"):
        get()
