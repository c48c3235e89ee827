"""Made-up findings and events around one small node, and what the classification makes of them."""

from collections.abc import Sequence

from analytics.classification.reading import IncidentScene, observations
from analytics.classification.score import classify
from analytics.connectivity import Kinship
from analytics.judged import DIPS, PATHS, JudgedPair
from telemetry.clock import NS_PER_S
from telemetry.entities import Topology
from telemetry.records import Cause, Event, Evidence, FaultClass, Finding, FindingStatus, Hypothesis, Severity
from tests.analytics.scenes import START_NS, node_of

GPUS = tuple(f"gpu:GPU-{number}" for number in range(4))
SUPPLIES = ("supply:psu0", "supply:psu1")
NODE = "node:box"
# The detector of lost sensors, whatever its name for a kind is.
SENSORS = "sensor_lost"


def finding(cause: Cause, entity_id: str, *, at_s: float = 0.0, **numbers: float) -> Finding:
    since_ns = START_NS + round(at_s * NS_PER_S)
    return Finding(
        id=f"{cause}:{entity_id}:{since_ns}",
        time_ns=since_ns,
        since_ns=since_ns,
        detector=cause.value,
        cause=cause,
        entity_id=entity_id,
        status=FindingStatus.RAISED,
        severity=Severity.WARNING,
        score=0.5,
        summary=f"{cause} on {entity_id}",
        evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in numbers.items()),
    )


def scene(
    *own: Finding,
    beside: Sequence[Finding] = (),
    siblings: Sequence[Finding] = (),
    events: Sequence[Event] = (),
    topology: Topology | None = None,
    judged: Sequence[str] = (DIPS, PATHS, SENSORS),
) -> IncidentScene:
    """Scene of an incident; `judged` are the detectors that judged everything around it."""
    kinship = Kinship.of(topology or node_of(4, 2))
    whole = sorted({NODE, *kinship.descendants(NODE)})
    found = (*own, *beside, *siblings)
    return IncidentScene(
        root=own[0].entity_id,
        own=own,
        beside=tuple(beside),
        siblings=tuple(siblings),
        events=tuple(events),
        kinship=kinship,
        judged=frozenset(
            JudgedPair(one.id, one.detector if detector == SENSORS else detector, entity_id)
            for one in found
            for detector in judged
            for entity_id in whole
            if detector == SENSORS or entity_id in SUPPLIES
        ),
    )


def ranked(scene: IncidentScene) -> tuple[Hypothesis, ...]:
    return classify(observations(scene))


def share(hypotheses: Sequence[Hypothesis], cause: FaultClass) -> float:
    return next((one.probability for one in hypotheses if one.cause is cause), 0.0)
