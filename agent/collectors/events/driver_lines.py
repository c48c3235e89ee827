"""Parser of the kernel log's driver lines; maps PCI addresses to GPUs."""

from collections.abc import Iterable

from agent.collectors.events.kernel_log import KernelLine
from agent.driver.port import GpuIdentity
from analytics.kernel_log import KernelLogParser, to_event
from telemetry.records import Event, EventKind


class DriverLineParser:
    """A `LineParser` over the patterns of `analytics.kernel_log`.

    Parameters
    ----------
    log
        Name of this log in the ids of events: a boot id, or a path.
    """

    def __init__(self, gpus: Iterable[GpuIdentity], *, log: str) -> None:
        self._parser = KernelLogParser()
        self._uuids = {gpu.pci.rpartition(".")[0]: gpu.uuid for gpu in gpus}
        self._log = log
        self._lines = 0

    @property
    def unparsed(self) -> int:
        """Driver lines so far that match no pattern."""
        return self._parser.unparsed_count

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        """Return the events that this line starts or completes; mostly none."""
        self._lines += 1
        number = self._lines if line.sequence is None else line.sequence
        return tuple(
            to_event(event, time_ns=line.time_ns, uuids=self._uuids, source=self._log)
            for event in self._parser.feed(number, line.text)
            # Lines of detail that follow an SXid are no further events.
            if event.kind is not EventKind.SXID or event.opens_report
        )
