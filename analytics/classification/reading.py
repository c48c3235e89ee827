"""Signs of an incident: which are present, which are absent, and which could not be measured."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from analytics.classification.sign import Observation, Sign
from analytics.connectivity import Kinship
from analytics.judged import DIPS, PATHS, JudgedPair, judged_entities
from telemetry.clock import NS_PER_S
from telemetry.gpu import XID_FALLEN_OFF_THE_BUS
from telemetry.records import Cause, Event, EventKind, Finding, Severity

# Siblings that begin within this time deviate together: group windows of 60 to 120 s are usual in alarm management
# (EEMUA 191, ISA 18.2).
TOGETHER_NS = 120 * NS_PER_S
# A cause is sought from ten minutes before a failure to five after: Meta RSC clusters, HPCA'25, arXiv 2410.21680.
BEFORE_NS = 600 * NS_PER_S
AFTER_NS = 300 * NS_PER_S
# heuristic: the gate at which a rise of the resistance is reported, and half of it, below which it counts as none.
_RISEN_RATIO, _AS_BEFORE_RATIO = 1.10, 1.05
# heuristic: a share of the excess that grows with power; between the two it is undecided.
_GROWS_RATIO, _CONSTANT_RATIO = 0.6, 0.3
# A kernel thread that takes most of a processor (field report: nv_queue near 100 %, blbadger.github.io/gpu-server).
_SPINNING_RATIO = 0.8
# NVIDIA Xid catalogue: graphics engine exception, MMU fault, GPU stopped processing, preemptive clean-up, and the codes
# of the GPU's system processor (119, 120): driver, firmware or application.
_APPLICATION_XIDS = frozenset({13, 31, 32, 43, 45, 69, 109, 119, 120})
# IPMI 2.0 table 42-3, sensor type << 8 | offset: power supply input lost or out of range, power unit input lost.
_INPUT_CODES = frozenset({0x0803, 0x0804, 0x0805, 0x0904})
_FOLLOWS_BRAKE = frozenset({Cause.POWER_BRAKE, Cause.HW_SLOWDOWN})
ELECTRICAL_SIGNS: dict[Cause, Sign] = {
    Cause.SUPPLY_SAG: Sign.SAG,
    Cause.POWER_BRAKE: Sign.BRAKE,
    Cause.HW_SLOWDOWN: Sign.SLOWDOWN,
    Cause.JOINT_AGEING: Sign.RESISTANCE_UP,
    Cause.SUPPLY_LOST: Sign.SUPPLY_OUT,
    Cause.SUPPLY_OVERLOAD: Sign.LOAD_BEYOND_PATH,
    Cause.SYNCHRONOUS_OVERLOAD: Sign.DIPS_WITH_STEPS,
    Cause.INPUT_SAG: Sign.VOLTAGE_DOWN,
}
PLAIN_SIGNS: dict[Cause, Sign] = {
    **ELECTRICAL_SIGNS,
    Cause.THERMAL_INTERFACE: Sign.ONE_HOT,
    Cause.AIRFLOW: Sign.WARM_AIR,
    Cause.THERMAL_MARGIN: Sign.THIN_MARGIN,
    Cause.GPU_LOST: Sign.LOST,
    Cause.LOOSE_MODULE: Sign.LINK_ERRORS,
    Cause.FABRIC_ERROR: Sign.LINK_ERRORS,
    Cause.HANG: Sign.NO_PROGRESS,
    Cause.STRAGGLER: Sign.LAGS,
    Cause.SENSOR_FAULT: Sign.DISAGREES,
    Cause.FEED_OVER_RATING: Sign.LOAD_BEYOND_PATH,
    Cause.PLUG_OVER_RATING: Sign.LOAD_BEYOND_PATH,
    Cause.REDUNDANCY_LOST: Sign.LOAD_BEYOND_PATH,
    Cause.NOVELTY: Sign.ODD,
}
_EVENT_SIGNS: dict[EventKind, Sign] = {
    EventKind.POWER: Sign.INPUT_EVENT,
    EventKind.FAN: Sign.FAN_EVENT,
    EventKind.DRIVER_BOUND: Sign.DRIVER_CHANGED,
    EventKind.DRIVER_UNBOUND: Sign.DRIVER_CHANGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentScene:
    """Facts about one incident.

    `own` are its findings. `beside` are findings of other families on its topology path, active or cleared lately, as
    far as they can be related to it; `siblings` are those of its own family elsewhere on the node. `judged` is what
    detectors judged about the time of these findings: only there is their silence evidence.
    """

    root: str
    own: tuple[Finding, ...]
    beside: tuple[Finding, ...]
    siblings: tuple[Finding, ...]
    events: tuple[Event, ...]
    kinship: Kinship
    judged: frozenset[JudgedPair]

    def judged_by(self, detector: str, finding: Finding) -> tuple[str, ...]:
        """Return the entities that a detector judged about the time of a finding."""
        return judged_entities(self.judged, finding.id, detector)


def observations(scene: IncidentScene) -> tuple[Observation, ...]:
    """Return each sign once, in the order in which they began; the earliest observation of a present sign counts."""
    first: dict[Sign, Observation] = {}
    reported = chain(
        *(_of_finding(finding, scene) for finding in (*scene.own, *scene.beside)),
        _together(scene),
        _of_brake(scene),
        _of_heat(scene),
        _of_loss(scene),
        _of_silence(scene),
        *(_of_event(event, scene) for event in scene.events),
    )
    for one in reported:
        known = first.get(one.sign)
        if known is None or (one.present, -one.since_ns) > (known.present, -known.since_ns):
            first[one.sign] = one
    return tuple(sorted(first.values(), key=lambda one: (one.since_ns, one.sign)))


def _seen(sign: Sign, on: Finding | Event, text: str, *, present: bool = True, entity_id: str = "") -> Observation:
    """Return the observation of a sign that began with a finding or event; on its entity unless one is named."""
    since_ns = on.since_ns if isinstance(on, Finding) else on.time_ns
    return Observation(
        sign=sign, present=present, since_ns=since_ns, text=text, entity_id=entity_id or on.entity_id or ""
    )


def _of_finding(finding: Finding, scene: IncidentScene) -> Iterator[Observation]:
    name = scene.kinship.label(finding.entity_id)
    sign = PLAIN_SIGNS.get(finding.cause)
    if sign is not None:
        yield _seen(sign, finding, f"{_stated(finding.cause)} on {name}{_numbers(finding)}")
    margin_ratio = finding.number("bus_margin_ratio")
    if finding.cause is Cause.SUPPLY_SAG and margin_ratio is not None and margin_ratio >= 0.0:
        yield _seen(Sign.BUS_HOLDS, finding, f"the bus before the converter of {name} is within its limits")
    if finding.cause is Cause.LOOSE_MODULE and _siblings_read(finding):
        yield _seen(Sign.LINKS_OF_ONE, finding, f"the errors stay with {name}")
    code = finding.number("code")
    if finding.cause is Cause.GPU_ERROR and code is not None:
        kind = Sign.APPLICATION_ERROR if int(code) in _APPLICATION_XIDS else Sign.DEVICE_ERROR
        yield _seen(kind, finding, f"Xid {code:.0f} on {name}")
    ratio = _resistance_ratio(finding)
    if ratio is not None and finding.cause is not Cause.JOINT_AGEING:
        if ratio >= _RISEN_RATIO:
            yield _seen(Sign.RESISTANCE_UP, finding, f"source resistance {ratio:.2f} x its baseline on {name}")
        elif ratio <= _AS_BEFORE_RATIO and scene.judged_by(PATHS, finding):
            text = f"source resistance as before on {name} ({ratio:.2f} x)"
            yield _seen(Sign.RESISTANCE_UP, finding, text, present=False)
    threads = finding.number("thread_ratio")
    if threads is not None and threads >= _SPINNING_RATIO:
        yield _seen(Sign.THREADS_SPIN, finding, f"a driver thread takes {threads:.0%} of a processor on {name}")


def _siblings_read(finding: Finding) -> bool:
    """Return True if the link errors of its siblings were counted as well."""
    return any(one.name.startswith("sibling_") for one in finding.evidence)


def _resistance_ratio(finding: Finding) -> float | None:
    """Return the source resistance over its own baseline, as electrical findings carry it.

    None for one that is risen and whose lower bound is not: it shows neither.
    """
    if finding.cause not in ELECTRICAL_SIGNS:
        return None
    ratio, low_ratio = finding.number("resistance_ratio"), finding.number("rise_low_ratio")
    ratio = finding.number("rise_ratio") if ratio is None else ratio
    unsure = ratio is not None and ratio >= _RISEN_RATIO and low_ratio is not None and low_ratio <= 1.0
    return None if unsure else ratio


def _together(scene: IncidentScene) -> Iterator[Observation]:
    """Yield the common mode: siblings that deviate within one window point to what they share."""
    electrical = [one for one in scene.own if one.cause in ELECTRICAL_SIGNS and one.entity_id.startswith("supply:")]
    group = _group(electrical)
    if len(group) > 1:
        names = _named(group, scene.kinship)
        shared = scene.kinship.common_root(one.entity_id for one in group) or scene.root
        yield _seen(Sign.SUPPLIES_TOGETHER, _first(group), f"{names} deviate together", entity_id=shared)


def _of_brake(scene: IncidentScene) -> Iterator[Observation]:
    """Yield the sign of a brake without any other electrical sign, by what of all supplies was judged.

    Paths of stiff supplies are known late or never: a brake without a dip is weaker evidence than beside good paths.
    """
    brakes = [one for one in scene.own if one.cause is Cause.POWER_BRAKE]
    dips, paths = ([scene.judged_by(detector, one) for one in brakes] for detector in (DIPS, PATHS))
    if dips and all(dips) and all(one.cause in _FOLLOWS_BRAKE for one in scene.own):
        found = "nothing found beside the brake" if all(paths) else "no dip; their paths are not known"
        sign = Sign.BRAKE_ALONE if all(paths) else Sign.BRAKE_WITHOUT_DIP
        text = f"{_labels(chain(*dips), scene.kinship)} judged, {found}"
        yield _seen(sign, _first(brakes), text)


def _of_heat(scene: IncidentScene) -> Iterator[Observation]:
    warm = _group(one for one in (*scene.own, *scene.siblings) if one.cause is Cause.THERMAL_MARGIN)
    if len(warm) > 1:
        text = f"{_named(warm, scene.kinship)} near their limit together"
        shared = scene.kinship.common_root(one.entity_id for one in warm) or scene.root
        yield _seen(Sign.SEVERAL_HOT, _first(warm), text, entity_id=shared)
    for one in scene.own:
        grown = one.number("grows_with_power_ratio")
        if grown is not None and not _CONSTANT_RATIO < grown < _GROWS_RATIO:
            text = f"{max(grown, 0.0):.0%} of the excess of {scene.kinship.label(one.entity_id)} grows with power"
            yield _seen(Sign.HEAT_GROWS_WITH_POWER, one, text, present=grown >= _GROWS_RATIO)


def _of_loss(scene: IncidentScene) -> Iterator[Observation]:
    lost = [one for one in scene.own if one.cause is Cause.GPU_LOST]
    if not lost:
        others = [one for one in scene.siblings if one.cause is Cause.GPU_LOST]
        if others:
            first = _first(others)
            yield _seen(Sign.LOST, first, f"{scene.kinship.label(first.entity_id)} beside it was lost")
        return
    group = _group(lost)
    if len({one.entity_id for one in group}) > 1:
        yield _seen(Sign.SEVERAL_LOST, _first(lost), f"{_named(group, scene.kinship)} went together")
    for one in lost:
        off_bus = one.number("pci_present") == 0 or one.number("code") == XID_FALLEN_OFF_THE_BUS
        if off_bus or one.number("pci_present") == 1:
            name = scene.kinship.label(one.entity_id)
            text = f"{name} is off its bus" if off_bus else f"the PCI device of {name} is still there"
            yield _seen(Sign.OFF_BUS, one, text, present=off_bus)
    before = [one for one in scene.beside if one.cause in ELECTRICAL_SIGNS]
    if before:
        earliest = _first(before)
        text = f"{_stated(earliest.cause)} on {scene.kinship.label(earliest.entity_id)} about the time of the loss"
        yield _seen(Sign.ELECTRICAL, earliest, text)
    elif all(judged := [scene.judged_by(DIPS, one) for one in lost]):
        text = f"{_labels(chain(*judged), scene.kinship)} judged at the time of the loss, nothing found"
        yield _seen(Sign.ELECTRICAL, _first(lost), text, present=False)


def _of_silence(scene: IncidentScene) -> Iterator[Observation]:
    silent = [one for one in scene.own if one.cause is Cause.SENSOR_LOST]
    if not silent:
        return
    first = _first(silent)
    group = _group(silent)
    kind = first.entity_id.partition(":")[0]
    silent_ids = {one.entity_id for one in group}
    watched = {found for one in group for found in scene.judged_by(one.detector, one) if found.startswith(f"{kind}:")}
    if len(watched) > 1 and watched <= silent_ids:
        yield _seen(Sign.ALL_SILENT, first, f"all {len(watched)} of kind {kind} fell silent together")
    else:
        yield _seen(Sign.ONE_SILENT, first, f"{_named(group, scene.kinship)} silent")


def _of_event(event: Event, scene: IncidentScene) -> Iterator[Observation]:
    if event.kind is EventKind.SUPPLY and event.severity is not Severity.INFO:
        sign: Sign | None = Sign.INPUT_EVENT if event.code in _INPUT_CODES else Sign.SUPPLY_EVENT
    elif event.kind is EventKind.COLLECTOR and event.severity is not Severity.INFO:
        sign = Sign.COLLECTOR_FAILED
    elif event.kind in (EventKind.POWER, EventKind.FAN) and event.severity is Severity.INFO:
        sign = None
    else:
        sign = _EVENT_SIGNS.get(event.kind)
    if sign is None:
        return
    if event.entity_id is not None and sign is Sign.DRIVER_CHANGED and not _near(event.entity_id, scene):
        return
    yield _seen(sign, event, f"event: {event.message}")


def _near(entity_id: str, scene: IncidentScene) -> bool:
    return entity_id == scene.root or entity_id in scene.kinship.descendants(scene.root)


def _first(findings: Iterable[Finding]) -> Finding:
    return min(findings, key=lambda one: (one.since_ns, one.id))


def _group(findings: Iterable[Finding]) -> list[Finding]:
    """Return the largest run of findings that began within one window, one an entity; the earliest run of equals."""
    ordered = sorted(findings, key=lambda one: (one.since_ns, one.entity_id))
    best: list[Finding] = []
    for place, start in enumerate(ordered):
        run: dict[str, Finding] = {}
        for one in ordered[place:]:
            if one.since_ns - start.since_ns > TOGETHER_NS:
                break
            run.setdefault(one.entity_id, one)
        if len(run) > len(best):
            best = list(run.values())
        if len(best) >= len(ordered) - place:
            break
    return best


_MAX_NAMES = 4


def _named(group: Iterable[Finding], kinship: Kinship) -> str:
    return _labels((one.entity_id for one in group), kinship)


def _labels(entity_ids: Iterable[str], kinship: Kinship) -> str:
    names = [kinship.label(entity_id) for entity_id in dict.fromkeys(entity_ids)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"


def _stated(cause: Cause) -> str:
    return cause.value.replace("_", " ")


# A brake that has just begun has no duration worth a place; the text of durations has one decimal.
_LEAST_BRAKE_S = 0.05
# The numbers that are worth a place in one line, by name, and how each is written.
_DISTINGUISHING: dict[str, str] = {
    "resistance_ratio": "{:.2f} x its baseline",
    "share_ratio": "{:.0%} of its usual share",
    "fallen_v": "{:.2f} V lower",
    "minimum_v": "down to {:.2f} V",
    "brake_s": "{:.1f} s braked",
    "theta_ratio": "{:.2f} x theirs",
    "margin_c": "{:.0f} K left",
    "stalled_s": "no step for {:.0f} s",
}


def _numbers(finding: Finding) -> str:
    ratio = _resistance_ratio(finding) if finding.number("resistance_ratio") is None else None
    reported = [] if ratio is None else [_DISTINGUISHING["resistance_ratio"].format(ratio)]
    reported += [
        text.format(value)
        for name, text in _DISTINGUISHING.items()
        if (value := finding.number(name)) is not None and (name != "brake_s" or value >= _LEAST_BRAKE_S)
    ]
    return f" ({', '.join(reported)})" if reported else ""


def is_evidence(event: Event) -> bool:
    """Return True if an event can be a sign at all; the others need not be kept."""
    return event.kind in _EVENT_SIGNS or event.kind in (EventKind.SUPPLY, EventKind.COLLECTOR)
