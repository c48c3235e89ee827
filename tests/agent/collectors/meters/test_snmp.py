"""The SNMP client with an agent that fails at one object of many."""

import asyncio
from typing import Any

import pytest

from agent.collectors.meters.pdu_mibs import Oid
from agent.collectors.meters.settings import PduSettings
from telemetry.errors import TransientError

pysnmp = pytest.importorskip("pysnmp.proto.rfc1902")

BROKEN: Oid = (1, 3, 6, 1, 99, 7)
OIDS: list[Oid] = [(1, 3, 6, 1, 99, number) for number in range(10)]


def fake_agent(monkeypatch: pytest.MonkeyPatch, *, status: int, most: int = 10, broken: Oid | None = None) -> list[int]:
    """Replace the agent by one that fails requests with too many objects or a broken one; return the request sizes."""
    from agent.collectors.meters import snmp  # noqa: PLC0415 -- only with pysnmp

    requested: list[int] = []

    async def get_cmd(_engine: Any, _who: Any, _agent: Any, _context: Any, *oids: Oid, **_: Any) -> Any:
        requested.append(len(oids))
        if len(oids) > most or broken in oids:
            return None, status, 1, []
        return None, 0, 0, [(oid, pysnmp.Integer32(oid[-1])) for oid in oids]

    monkeypatch.setattr(snmp, "get_cmd", get_cmd)
    for wrapper in ("ObjectType", "ObjectIdentity"):
        monkeypatch.setattr(snmp, wrapper, lambda oid: oid)
    return requested


def get() -> Any:
    from agent.collectors.meters.snmp import PysnmpClient  # noqa: PLC0415 -- only with pysnmp

    async def request() -> Any:
        client = PysnmpClient(PduSettings(name="p", host="127.0.0.1"))
        try:
            return await client.get(OIDS)
        finally:
            client.close()

    return asyncio.run(request())


def test_one_object_that_the_agent_fails_at_is_absent_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_agent(monkeypatch, status=5, broken=BROKEN)
    assert get() == {oid: None if oid == BROKEN else oid[-1] for oid in OIDS}


def test_an_agent_with_small_responses_gets_smaller_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = fake_agent(monkeypatch, status=1, most=3)
    assert get() == {oid: oid[-1] for oid in OIDS}
    assert max(requested[1:]) <= 5


def test_an_agent_for_which_one_object_is_too_big_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_agent(monkeypatch, status=1, most=0)
    with pytest.raises(TransientError, match="error status 1"):
        get()
