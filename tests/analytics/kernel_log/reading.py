"""Short ways to feed lines to a parser."""

from analytics.kernel_log import KernelEvent, KernelLogParser, scan


def events_of(*lines: str) -> list[KernelEvent]:
    return list(scan(lines))


def only(*lines: str) -> KernelEvent:
    events = events_of(*lines)
    assert len(events) == 1, events
    return events[0]


def last(*lines: str) -> KernelEvent:
    return events_of(*lines)[-1]


def parser_after(*lines: str) -> KernelLogParser:
    parser = KernelLogParser()
    for number, line in enumerate(lines, start=1):
        parser.feed(number, line)
    return parser
