"""Evidence of findings as lines of text: one line for all entities that a detector reports alike."""

from collections.abc import Iterable, Iterator, Sequence

from railwatch.operator.entity_names import EntityNames
from telemetry.quantities import evidence_label, quantity
from telemetry.records import Evidence, Finding

# heuristic: detectors list the deciding numbers first, and six of them fit in a line.
MOST_NUMBERS = 6


def evidence_lines(
    findings: Iterable[Finding], names: EntityNames, *, most: int | None = MOST_NUMBERS
) -> Iterator[str]:
    """Yield one line per detector and set of numbers, with the entities first; `most` None prints every number."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.detector, *(item.name for item in finding.evidence)), []).append(finding)
    for (detector, *_), members in alike.items():
        columns = zip(*(finding.evidence for finding in members), strict=True)
        numbers = [f"{evidence_label(column[0].name)} {_span(column)}" for column in columns if not _is_empty(column)]
        where = names.names(finding.entity_id for finding in members)
        text = ", ".join(numbers[:most]) or "no numbers"
        title = detector.replace("_", " ")
        yield f"{where}  {text}" if text.startswith(title) else f"{where}  {title}: {text}"


def _is_empty(column: Sequence[Evidence]) -> bool:
    """Return True for durations of zero: nothing was counted yet."""
    return column[0].unit == "s" and not any(item.value for item in column)


def _span(column: Sequence[Evidence]) -> str:
    """Return the value that several entities share, the range of their values, or all of them if without unit."""
    items = sorted(column, key=lambda item: item.value)
    texts = list(dict.fromkeys(quantity(item.value, item.unit, item.name) for item in items))
    if len(texts) == 1:
        return texts[0]
    if not items[0].unit:
        return ", ".join(texts)
    unit = texts[-1].rpartition(" ")[2]
    return f"{texts[0].removesuffix(f' {unit}')} to {texts[-1]}"
