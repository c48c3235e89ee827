"""Collector of the rack's PDUs over SNMP: a row for each inlet, phase and outlet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agent.collectors.meters.pdu_mibs import PDU_SIGNALS, Oid, PduChannel, SnmpValue
from agent.collectors.meters.pdu_survey import channels_of, survey_pdu
from agent.collectors.meters.settings import PDU, PduSettings
from telemetry.entities import Entity, EntityKind
from telemetry.errors import RailwatchError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, signal

logger = logging.getLogger(__name__)

_SIGNALS = tuple(signal(EntityKind.SUPPLY, name) for name in PDU_SIGNALS)
# heuristic: a PDU with 48 outlets responds within two seconds; all PDUs are read at once.
_READ_LIMIT_S = 8.0
# heuristic: every known table of a PDU with a slow agent, walked row by row.
_SURVEY_LIMIT_S = 15.0


class SnmpClient(Protocol):
    """Client of one SNMP agent; `agent.collectors.meters.snmp` implements it."""

    async def get(self, oids: Sequence[Oid]) -> Mapping[Oid, SnmpValue]:
        """Return the values of the objects."""
        ...

    async def walk(self, root: Oid) -> Mapping[Oid, SnmpValue]:
        """Return the values below an object, by the rest of the identifier."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


OpenClient = Callable[[PduSettings], SnmpClient]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPdu:
    """A PDU and its values; `channels` is empty where `problem` is the reason that none can be read."""

    settings: PduSettings
    mib: str
    channels: tuple[PduChannel, ...]
    problem: str = ""


def find_pdus(settings: Sequence[PduSettings], open_client: OpenClient) -> tuple[FoundPdu, ...]:
    """Survey every PDU once; takes as long as the slowest, and no longer than 15 s."""

    async def find_all() -> tuple[FoundPdu, ...]:
        return tuple(await asyncio.gather(*(_find(one, open_client) for one in settings)))

    return asyncio.run(find_all())


async def _find(settings: PduSettings, open_client: OpenClient) -> FoundPdu:
    client = open_client(settings)
    try:
        async with asyncio.timeout(_SURVEY_LIMIT_S):
            if settings.oids:
                channels, mib = channels_of(settings.oids), "listed objects"
                await client.get([channels[0].oid])
            else:
                survey = await survey_pdu(client.walk)
                channels, mib = survey.channels, survey.mib
    except TimeoutError:
        return FoundPdu(settings=settings, mib="", channels=(), problem=f"no response within {_SURVEY_LIMIT_S:g} s")
    except (RailwatchError, ValueError) as err:
        return FoundPdu(settings=settings, mib="", channels=(), problem=str(err))
    finally:
        client.close()
    problem = "" if channels else f"{settings.name} ({settings.host}) has no known table; list its objects under `oids`"
    return FoundPdu(settings=settings, mib=mib, channels=channels, problem=problem)


@dataclass(slots=True)
class _PolledPdu:
    """State of a PDU while it is read: its open client, None after a failure, and the cells of its values."""

    found: FoundPdu
    cells: tuple[tuple[PduChannel, int, int], ...]
    oids: tuple[Oid, ...]
    client: SnmpClient | None = None
    is_failing: bool = False
    logged: set[Oid] = field(default_factory=set)


class Pdu:
    """The inlets, phases and outlets that PDUs had when they were surveyed.

    A PDU that does not respond is a block of NaN and logged once; the others are still read. A value that is no number
    is NaN and counted in `refused`.
    """

    name = PDU
    rate = RateClass.RARE

    def __init__(self, pdus: Sequence[FoundPdu], open_client: OpenClient) -> None:
        self._open_client = open_client
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
        """Do nothing: the first read opens the sockets."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_parts, 5)``; takes as long as the slowest PDU.

        TransientError where none of the PDUs responded.
        """
        values.fill(np.nan)
        if self._runner is None:
            self._runner = asyncio.Runner()
        problems = self._runner.run(self._read_all(values))
        if len(problems) == len(self._polled):
            raise TransientError("; ".join(problems))

    def close(self) -> None:
        """Close the sockets; closing twice is harmless."""
        for polled in self._polled:
            _disconnect(polled)
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def _read_all(self, values: FloatArray) -> list[str]:
        reads: list[Awaitable[str]] = [self._read_one(polled, values) for polled in self._polled]
        return [problem for problem in await asyncio.gather(*reads) if problem]

    async def _read_one(self, polled: _PolledPdu, values: FloatArray) -> str:
        """Read one PDU; return the reason of a failure, an empty text on success."""
        try:
            if polled.client is None:
                polled.client = self._open_client(polled.found.settings)
            async with asyncio.timeout(_READ_LIMIT_S):
                values_by_oid = await polled.client.get(polled.oids)
        except (RailwatchError, TimeoutError) as err:
            problem = str(err) or f"{polled.found.settings.name}: no response within {_READ_LIMIT_S:g} s"
            _disconnect(polled)
            if not polled.is_failing:
                polled.is_failing = True
                logger.warning("cannot read PDU, will retry: %s", problem)
            return problem
        if polled.is_failing:
            polled.is_failing = False
            logger.info("PDU %s responds again", polled.found.settings.name)
        for channel, row, column in polled.cells:
            status = None if channel.status is None else values_by_oid.get(channel.status)
            try:
                value = channel.value(values_by_oid.get(channel.oid), status)
                if not _SIGNALS[column].is_plausible(value):
                    raise ValueError(f"{value:g} is not a plausible {channel.signal}")  # noqa: TRY301 -- as a text is
                values[row, column] = value
            except ValueError as err:
                self._refuse(polled, channel, err)
        return ""

    def _refuse(self, polled: _PolledPdu, channel: PduChannel, err: ValueError) -> None:
        self.refused += 1
        if channel.oid not in polled.logged:
            polled.logged.add(channel.oid)
            oid = ".".join(map(str, channel.oid))
            logger.warning("%s: ignoring value of %s (%s): %s", polled.found.settings.name, oid, channel.part, err)


def _disconnect(polled: _PolledPdu) -> None:
    if polled.client is not None:
        polled.client.close()
        polled.client = None


def _entity(key: str, pdu: FoundPdu, channel: PduChannel) -> Entity:
    tags = (("pdu", pdu.settings.name),) + ((("label", channel.label),) if channel.label else ())
    return Entity(kind=EntityKind.SUPPLY, key=key, name=key, tags=tags)
