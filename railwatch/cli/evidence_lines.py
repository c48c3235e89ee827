"""Evidence of findings as lines of text: one line for all entities that a detector reports alike."""

from collections.abc import Iterable, Iterator, Sequence

from railwatch.operator.entity_names import EntityNames
from telemetry.records import Evidence, Finding

# heuristic: detectors list the deciding numbers first, and six of them fit in a line.
MOST_NUMBERS = 6
_SUFFIXES = ("_ohm", "_v", "_a", "_w", "_k_per_w", "_c_per_w", "_c_per_s", "_c", "_mhz", "_rpm", "_s", "_sd")


def evidence_lines(
    findings: Iterable[Finding], names: EntityNames, *, most: int | None = MOST_NUMBERS
) -> Iterator[str]:
    """Yield one line per detector and set of numbers, with the entities first; `most` None prints every number."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.detector, *(item.name for item in finding.evidence)), []).append(finding)
    for (detector, *_), members in alike.items():
        columns = zip(*(finding.evidence for finding in members), strict=True)
        numbers = [f"{_label(column[0].name)} {_span(column)}" for column in columns]
        where = names.names(finding.entity_id for finding in members)
        text = ", ".join(numbers[:most]) or "no numbers"
        title = detector.replace("_", " ")
        yield f"{where}  {text}" if text.startswith(title) else f"{where}  {title}: {text}"


def _label(name: str) -> str:
    """Return the display name of one number of evidence: its name without unit."""
    if name.endswith("_ratio"):
        return name.removesuffix("_ratio").replace("_", " ")
    suffix = next((one for one in _SUFFIXES if name.endswith(one)), "")
    return name.removesuffix(suffix).replace("_", " ")


def figure(name: str, value: float, unit: str) -> str:
    """Return a value with its unit as people write it: ``15.1 mΩ``, ``12.31 V``, ``2.9x``, ``97 %``."""
    whole = "0" if abs(value) >= 10 else "1"
    match unit:
        case "ohm":
            text = f"{value * 1e3:.1f} mΩ"
        case "V":
            text = f"{value:.2f} V"
        case "ratio":
            text = f"{value:.1f}x" if name in _MULTIPLES else f"{value * 100:.0f} %"
        case "W" | "A" | "K" | "°C" | "MHz" | "rpm" | "s":
            text = f"{value:.{whole}f} {unit}"
        case _:
            text = f"{value:.3g} {unit}".strip()
    return text


# Ratios to a baseline or to siblings; the other ratios are shares.
_MULTIPLES = frozenset({"rise_ratio", "theta_ratio", "smoothed_theta_ratio", "limit_ratio", "hourly_rise_ratio"})


def _span(column: Sequence[Evidence]) -> str:
    """Return the value that several entities share, the range of their values, or all of them if without unit."""
    items = sorted(column, key=lambda item: item.value)
    texts = list(dict.fromkeys(figure(item.name, item.value, item.unit) for item in items))
    if len(texts) == 1:
        return texts[0]
    if not items[0].unit:
        return ", ".join(texts)
    unit = texts[-1].rpartition(" ")[2]
    return f"{texts[0].removesuffix(f' {unit}')} to {texts[-1]}"
