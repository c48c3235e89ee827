"""What the PDUs of the rack measure: a row for each inlet, phase and outlet, over SNMP."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agent.collectors.meters.channel import Oid, PduChannel, SnmpValue
from agent.collectors.meters.pdu_mibs import PDU_SIGNALS
from agent.collectors.meters.pdu_survey import channels_of, survey_pdu
from agent.collectors.meters.settings import PduSettings
from telemetry.entities import Entity, EntityKind
from telemetry.errors import RailwatchError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, signal

logger = logging.getLogger(__name__)

_SIGNALS = tuple(signal(EntityKind.SUPPLY, name) for name in PDU_SIGNALS)
# heuristic: a PDU with 48 outlets answers within two seconds; four of them are asked at once.
_READ_LIMIT_S = 8.0
# Every known table of a PDU whose agent is slow, walked row by row.
_SURVEY_LIMIT_S = 15.0


class SnmpClient(Protocol):
    """An SNMP agent, as `agent.collectors.meters.snmp` gives it."""

    async def get(self, oids: Sequence[Oid]) -> Mapping[Oid, SnmpValue]:
        """Return the answers to so many objects."""
        ...

    async def walk(self, root: Oid) -> Mapping[Oid, SnmpValue]:
        """Return what stands below an object."""
        ...

    def close(self) -> None:
        """Let the socket go."""
        ...


OpenClient = Callable[[PduSettings], SnmpClient]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPdu:
    """A PDU and what it measures; `channels` is empty where `problem` says why nothing is read of it."""

    settings: PduSettings
    mib: str
    channels: tuple[PduChannel, ...]
    problem: str = ""


def find_pdus(settings: Sequence[PduSettings], open_session: OpenClient) -> tuple[FoundPdu, ...]:
    """Ask every PDU once what it measures; takes as long as the slowest, and no longer than 15 s."""

    async def find_all() -> tuple[FoundPdu, ...]:
        return tuple(await asyncio.gather(*(_find(one, open_session) for one in settings)))

    return asyncio.run(find_all())


async def _find(settings: PduSettings, open_session: OpenClient) -> FoundPdu:
    session = open_session(settings)
    try:
        async with asyncio.timeout(_SURVEY_LIMIT_S):
            if settings.oids:
                channels, mib = channels_of(settings.oids), "listed objects"
                await session.get([channels[0].oid])
            else:
                survey = await survey_pdu(session.walk)
                channels, mib = survey.channels, survey.mib
    except TimeoutError:
        return FoundPdu(settings=settings, mib="", channels=(), problem=f"no answer within {_SURVEY_LIMIT_S:g} s")
    except (RailwatchError, ValueError) as err:
        return FoundPdu(settings=settings, mib="", channels=(), problem=str(err))
    finally:
        session.close()
    problem = "" if channels else f"{settings.name} ({settings.host}) has none of the known tables: list its `oids`"
    return FoundPdu(settings=settings, mib=mib, channels=channels, problem=problem)


@dataclass(slots=True)
class _PolledPdu:
    """One PDU while it is read: its open session, None after it failed, and where its values go."""

    found: FoundPdu
    cells: tuple[tuple[PduChannel, int, int], ...]
    oids: tuple[Oid, ...]
    session: SnmpClient | None = None
    troubled: bool = False
    odd: set[Oid] = field(default_factory=set)


class Pdu:
    """The inlets, phases and outlets that PDUs had when they were surveyed.

    A PDU that does not answer is a block of NaN and is said once; its siblings go on. A value that is no number is NaN
    and counted in `refused`.
    """

    name = "pdu"
    rate = RateClass.RARE

    def __init__(self, pdus: Sequence[FoundPdu], open_session: OpenClient) -> None:
        self._open_session = open_session
        entities: dict[str, Entity] = {}
        rows: dict[str, int] = {}
        self._polled: list[_PolledPdu] = []
        for pdu in pdus:
            for channel in pdu.channels:
                key = f"{pdu.settings.name}/{channel.part}"
                if key not in rows:
                    rows[key] = len(rows)
                    entities[key] = _entity(key, pdu, channel)
            cells = tuple(
                (channel, rows[f"{pdu.settings.name}/{channel.part}"], PDU_SIGNALS.index(channel.signal))
                for channel in pdu.channels
            )
            oids = dict.fromkeys(oid for one, _, _ in cells for oid in (one.oid, one.status) if oid is not None)
            self._polled.append(_PolledPdu(found=pdu, cells=cells, oids=tuple(oids)))
        self.spec = TableSpec(
            name=self.name, kind=EntityKind.SUPPLY, entities=tuple(entities.values()), signals=PDU_SIGNALS
        )
        self._runner: asyncio.Runner | None = None
        self.refused = 0

    def open(self) -> None:
        """Nothing to open: the first read does."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_parts, 5)``; takes as long as the slowest PDU.

        Raises
        ------
        TransientError
            None of the PDUs answered.
        """
        values.fill(np.nan)
        if self._runner is None:
            self._runner = asyncio.Runner()
        problems = self._runner.run(self._read_all(values))
        if len(problems) == len(self._polled):
            raise TransientError("; ".join(problems))

    def close(self) -> None:
        """Let the sockets go; closing twice is harmless."""
        for polled in self._polled:
            _disconnect(polled)
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def _read_all(self, values: FloatArray) -> list[str]:
        reads: list[Awaitable[str]] = [self._read_one(polled, values) for polled in self._polled]
        return [problem for problem in await asyncio.gather(*reads) if problem]

    async def _read_one(self, polled: _PolledPdu, values: FloatArray) -> str:
        """Read one PDU; gives why it could not be read, an empty text where it could."""
        try:
            if polled.session is None:
                polled.session = self._open_session(polled.found.settings)
            async with asyncio.timeout(_READ_LIMIT_S):
                values_by_oid = await polled.session.get(polled.oids)
        except (RailwatchError, TimeoutError) as err:
            problem = str(err) or f"{polled.found.settings.name}: no answer within {_READ_LIMIT_S:g} s"
            _disconnect(polled)
            if not polled.troubled:
                polled.troubled = True
                logger.warning("PDU is not read: %s", problem)
            return problem
        if polled.troubled:
            polled.troubled = False
            logger.info("PDU %s is read again", polled.found.settings.name)
        for channel, row, column in polled.cells:
            status = None if channel.status is None else values_by_oid.get(channel.status)
            try:
                value = channel.value(values_by_oid.get(channel.oid), status)
                if not _SIGNALS[column].is_plausible(value):
                    raise ValueError(f"{value:g} is no value of {channel.signal}")  # noqa: TRY301 -- as no number is
                values[row, column] = value
            except ValueError as err:
                self._refuse(polled, channel, err)
        return ""

    def _refuse(self, polled: _PolledPdu, channel: PduChannel, err: ValueError) -> None:
        self.refused += 1
        if channel.oid not in polled.odd:
            polled.odd.add(channel.oid)
            oid = ".".join(map(str, channel.oid))
            logger.warning("%s: %s of %s is refused: %s", polled.found.settings.name, oid, channel.part, err)


def _disconnect(polled: _PolledPdu) -> None:
    if polled.session is not None:
        polled.session.close()
        polled.session = None


def _entity(key: str, pdu: FoundPdu, channel: PduChannel) -> Entity:
    tags = (("pdu", pdu.settings.name),) + ((("label", channel.label),) if channel.label else ())
    return Entity(kind=EntityKind.SUPPLY, key=key, name=key, tags=tags)
