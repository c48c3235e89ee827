"""State, errors and traffic of every NVLink, in one batched call per GPU.

Hopper and newer take the link as the scope of one field id; older parts have an id for each link, and the oldest way
is a function a counter. Ids are those of ``NVML_FI_DEV_NVLINK_*`` in ``nvml.h``.
"""

from dataclasses import dataclass

import numpy as np

from agent.driver import nvml_fields as fields
from agent.driver.nvml_library import NvmlLibrary, normal_pci
from agent.driver.nvml_reader import Route, SignalReader
from agent.driver.nvml_signals import FieldSource, Want, field, one
from agent.driver.port import LinkIdentity
from telemetry.entities import EntityKind
from telemetry.errors import RailwatchError
from telemetry.frames import FloatArray
from telemetry.signals import Source, signals_of

# nvmlNvLinkErrorCounter_t: replay, recovery, CRC of flits.
_REPLAY, _RECOVERY, _CRC_FLIT = 0, 1, 2
_KIB, _MEGA = 1024.0, 1e6
# NVML_NVLINK_MAX_LINKS, where the driver does not report the number.
_MOST_LINKS = 18
# nvmlIntNvLinkDeviceType_t: the other end is unknown, so the link leads nowhere.
_LEADS_NOWHERE = 255
SIGNALS = tuple(signal.name for signal in signals_of(EntityKind.LINK, source=Source.NVLINK))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkFields:
    """Quantity of a link: by its scope, else by an id of its own, times a factor."""

    signal: str
    scoped: int
    by_link: tuple[int, ...] = ()
    factor: float = 1.0
    error_counter: int | None = None


_QUANTITIES = (
    _LinkFields(
        signal="nvlink_crc_errors",
        scoped=fields.NVLINK_CRC_ERRORS,
        by_link=fields.NVLINK_CRC_BY_LINK,
        error_counter=_CRC_FLIT,
    ),
    _LinkFields(
        signal="nvlink_replays",
        scoped=fields.NVLINK_REPLAYS,
        by_link=fields.NVLINK_REPLAYS_BY_LINK,
        error_counter=_REPLAY,
    ),
    _LinkFields(
        signal="nvlink_recoveries",
        scoped=fields.NVLINK_RECOVERIES,
        by_link=fields.NVLINK_RECOVERIES_BY_LINK,
        error_counter=_RECOVERY,
    ),
    _LinkFields(signal="nvlink_symbol_errors", scoped=fields.NVLINK_SYMBOL_ERRORS),
    _LinkFields(
        signal="nvlink_speed_bytes_per_s",
        scoped=fields.NVLINK_SPEED_MB_S,
        by_link=fields.NVLINK_SPEED_BY_LINK,
        factor=_MEGA,
    ),
    _LinkFields(signal="nvlink_tx_raw_bytes", scoped=fields.NVLINK_RAW_TX_KIB, factor=_KIB),
    _LinkFields(signal="nvlink_rx_raw_bytes", scoped=fields.NVLINK_RAW_RX_KIB, factor=_KIB),
)


def link_wants(link: int) -> tuple[Want, ...]:
    """Return the ways to read one link; the columns are ``nvlink3/nvlink_up`` and so on."""

    def named(signal: str) -> str:
        return column_of(link, signal)

    wants: list[Want] = [
        (
            field(fields.NVLINK_STATE, named("nvlink_up"), scope=link),
            one("nvmlDeviceGetNvLinkState", named("nvlink_up"), link),
        ),
        _bytes(link, named("nvlink_tx_bytes"), newest=fields.NVLINK_SENT_BYTES, older=fields.NVLINK_DATA_TX_KIB),
        _bytes(link, named("nvlink_rx_bytes"), newest=fields.NVLINK_RECEIVED_BYTES, older=fields.NVLINK_DATA_RX_KIB),
    ]
    for quantity in _QUANTITIES:
        name, counter = named(quantity.signal), quantity.error_counter
        want: list[FieldSource] = [field(quantity.scoped, name, quantity.factor, scope=link)]
        if link < len(quantity.by_link):
            want.append(field(quantity.by_link[link], name, quantity.factor))
        requested = () if counter is None else (one("nvmlDeviceGetNvLinkErrorCounter", name, link, counter, ctype="Q"),)
        wants.append((*want, *requested))
    return tuple(wants)


def column_of(link: int, signal: str) -> str:
    """Name the column of one signal of one link."""
    return f"nvlink{link}/{signal}"


def _bytes(link: int, signal: str, *, newest: int, older: int) -> Want:
    return field(newest, signal, scope=link), field(older, signal, _KIB, scope=link)


class NvLinkReader:
    """The NVLinks of all GPUs, GPU by GPU.

    A link that leads nowhere counts as one where any link of the node leads somewhere: then it is a link that is down.

    `links` are in the order of the rows; empty where GPUs have none or none is connected.
    """

    def __init__(self, library: NvmlLibrary, *, known_lost: dict[str, object] | None = None) -> None:
        counts = [_count(library, gpu.uuid) for gpu in library.gpus]
        found: list[LinkIdentity] = []
        rows: list[tuple[int, int]] = []
        for row, (gpu, count) in enumerate(zip(library.gpus, counts, strict=True)):
            for link in range(count):
                peer = _peer(library, gpu.uuid, link)
                found.append(LinkIdentity(gpu_uuid=gpu.uuid, gpu_index=gpu.index, link=link, peer=peer))
                rows.append((row, link))
        connected = any(link.peer is not None for link in found)
        self.links: tuple[LinkIdentity, ...] = tuple(found) if connected else ()
        most = max(counts, default=0) if connected else 0
        columns = tuple(column_of(link, signal) for link in range(most) for signal in SIGNALS)
        wants = tuple(want for link in range(most) for want in link_wants(link))
        self._reader = SignalReader(library, wants, columns, known_lost=known_lost)
        self._cells = np.full((len(library.gpus), len(columns)), np.nan)
        self._gpu_rows = np.array([row for row, _ in rows], dtype=np.intp)
        self._link_rows = np.array([link for _, link in rows], dtype=np.intp)
        self._shape = (len(library.gpus), most, len(SIGNALS))

    @property
    def routes(self) -> dict[tuple[str, str], Route]:
        """The route of each column, by UUID and column."""
        return self._reader.routes

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_links, n_signals)``; the links of a lost GPU are rows of NaN.

        TransientError where the driver is not loaded any more.
        """
        if not self.links:
            return
        self._reader.read(self._cells)
        values[...] = self._cells.reshape(self._shape)[self._gpu_rows, self._link_rows]


def _count(library: NvmlLibrary, uuid: str) -> int:
    """Return the number of links of a GPU; 0 where it does not report them."""
    try:
        result = library.call("nvmlDeviceGetFieldValues", uuid, [fields.NVLINK_LINK_COUNT])[0]
        if result.nvmlReturn == 0:
            return min(int(result.value.uiVal), _MOST_LINKS)
    except RailwatchError:
        pass
    count = 0
    for link in range(_MOST_LINKS):
        try:
            library.call("nvmlDeviceGetNvLinkState", uuid, link)
        except RailwatchError:  # beyond the last one, or a part without any
            break
        count = link + 1
    return count


def _peer(library: NvmlLibrary, uuid: str, link: int) -> str | None:
    """Return the PCI address of the other end; None where the link leads nowhere, ``unknown`` without a report."""
    try:
        if library.call("nvmlDeviceGetNvLinkRemoteDeviceType", uuid, link) == _LEADS_NOWHERE:
            return None
    except RailwatchError:
        pass
    try:
        bus_id = library.call("nvmlDeviceGetNvLinkRemotePciInfo", uuid, link).busId
    except RailwatchError:
        return "unknown" if _is_up(library, uuid, link) else None
    return normal_pci(bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id))


def _is_up(library: NvmlLibrary, uuid: str, link: int) -> bool:
    try:
        return bool(library.call("nvmlDeviceGetNvLinkState", uuid, link))
    except RailwatchError:
        return False
