"""The fleet's judgement: windows of all nodes in, findings and incidents out, by the nodes' own detectors and book.

Same windows in, same records out, whatever the hour: every stamp is the window's. So a judge that was stopped anywhere
continues from its last snapshot, and returns the same records again, to the nanosecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from analytics.connectivity import Kinship
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel, PanelState
from analytics.detectors.supply_outputs import RAIL_OF_OUTPUT
from analytics.fleet.already_explained import Folded, NodeReports
from analytics.fleet.members import Members
from analytics.fleet.shared_faults import SHOWN_BY, CommonMode
from analytics.fleet.topology import FeedsAndRacks, fleet_topology
from analytics.fleet.window import FleetWindow, HeldValues
from analytics.fleet.wiring import fleet_wiring
from analytics.incidents.book import IncidentBook
from analytics.incidents.book_settings import BookSettings
from analytics.incidents.families import finding_key
from analytics.shards.panel import rearranged
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.records import Finding, FindingStatus, Incident

_DAY_S = 86_400.0
# heuristic: nodes that start within one window; anybody who may write to the store may name a node.
_EARLY_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """Settings of the fleet's judgement; `forget_s` is how long a silent entity stays a member."""

    limits: DetectorLimits = field(default_factory=DetectorLimits)
    book: BookSettings = field(default_factory=BookSettings)
    above: FeedsAndRacks = field(default_factory=FeedsAndRacks)
    forget_s: float = _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecords:
    """Result of one window; `folded` counts findings that nodes reported themselves."""

    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    folded: int = 0


@dataclass(slots=True, kw_only=True)
class FleetState:
    """State that is carried from window to window."""

    members: Members
    panel: PanelState
    held: dict[EntityKind, HeldValues]
    topology: Topology
    kinship: Kinship
    common: CommonMode
    reported: NodeReports
    book: IncidentBook
    # Findings that are in the book and hold, by key, with their node: what is folded later is taken back there.
    standing: dict[str, tuple[str, Finding]]
    # Those of them that the book does not receive, because an entity above their node explains them.
    folded: Folded = field(default_factory=Folded)
    # Described wirings by node, in order of their arrival; one may come before the first rows of its node.
    wirings: dict[str, Wiring] = field(default_factory=dict)
    # Members whose newest rows are marked as simulated; a silent one still is.
    simulated: frozenset[str] = frozenset()
    # Members that have shown rails: the slow outputs of their supplies are the same supplies a second time.
    with_rails: frozenset[str] = frozenset()
    until_ns: int = 0


class FleetJudge:
    """Judges one window after the other. One thread owns it; it reads no clock."""

    def __init__(self, settings: FleetSettings) -> None:
        self.settings = settings
        self.panel = Panel.build(settings.limits)
        topology = Topology(entities=())
        self.state = FleetState(
            members=Members(forget_ns=round(settings.forget_s * NS_PER_S)),
            panel=self.panel.start(()),
            held={},
            topology=topology,
            kinship=Kinship.of(topology),
            common=CommonMode(),
            reported=NodeReports(),
            book=IncidentBook(settings.book),
            standing={},
        )

    def step(self, window: FleetWindow) -> WindowRecords:
        """Judge a window; windows come in order and do not overlap. One that raises is gone, and not met again."""
        state = self.state
        state.until_ns = window.stop_ns
        seen = window.nodes
        shown = {
            cause: frozenset[str]().union(*(window.nodes_with(*place) for place in places))
            for cause, places in SHOWN_BY.items()
        }
        state.simulated = (state.simulated - seen) | window.simulated
        for rail in RAIL_OF_OUTPUT.values():
            state.with_rails |= window.nodes_with(EntityKind.SUPPLY, rail)
        window = window.with_outputs_as_rails(state.with_rails)
        rewired = self._rewired(window.wirings)
        gone, closed = self._settled(window.stop_ns) if state.members.take(window) or rewired else ((), ())
        frames = []
        for kind, held in state.held.items():
            state.held[kind], frame = held.frame(window)
            frames.append(frame)
        state.panel = self.panel.take_events(state.panel, window.events)
        state.panel, found = self.panel.step(state.panel, frames, state.topology)
        state.reported.receive(window.incidents)
        state.reported.forget(window.stop_ns)
        known = [one for one in window.findings if state.kinship.knows(one.entity_id)]
        state.common, above = state.common.step((*found, *known), window.stop_ns, state.kinship, seen=shown)
        kept, folded = self._unfolded(found, window.stop_ns)
        unexplained = state.folded.step(kept, state.standing, state.common, state.kinship, window.stop_ns)
        incidents = state.book.step(
            (*unexplained, *above),
            window.stop_ns,
            state.topology,
            window.events,
            read_judged=lambda: self.panel.judged(state.panel),
        )
        return WindowRecords(findings=(*gone, *kept, *above), incidents=(*closed, *incidents), folded=folded)

    def settle(self) -> None:
        """Lay everything out for the members as they are now."""
        state = self.state
        specs = state.members.specs()
        state.held = {
            spec.kind: state.held[spec.kind].under(spec.entities)
            if spec.kind in state.held
            else HeldValues.nothing(spec.kind, spec.entities, spec.signals)
            for spec in specs
        }
        state.panel = rearranged(self.panel, state.panel, specs)
        nodes, every = state.members.nodes, state.members.every
        known = frozenset(nodes)
        early = [node for node in state.wirings if node not in known]
        for node in early[:-_EARLY_MAX]:
            del state.wirings[node]
        wirings = {node: wiring for node, wiring in state.wirings.items() if node in known}
        state.topology = fleet_topology(nodes, every, self.settings.above, wirings)
        state.kinship = Kinship.of(state.topology)
        wiring = fleet_wiring(every, state.topology, wirings)
        self.panel = Panel.build(self.settings.limits, wiring)

    def _rewired(self, wirings: Mapping[str, Wiring | None]) -> bool:
        """Take the wirings that nodes sent; return True if any is another one than before."""
        changed = False
        for node, wiring in wirings.items():
            if self.state.wirings.get(node) == wiring:
                continue
            changed = True
            self.state.wirings.pop(node, None)
            if wiring is not None:
                self.state.wirings[node] = wiring
        return changed

    def _settled(self, now_ns: int) -> tuple[tuple[Finding, ...], tuple[Incident, ...]]:
        """Settle, and clear the findings on forgotten members, which nothing else would clear."""
        state, before = self.state, self.state.topology
        self.settle()
        members = frozenset(state.members.nodes)
        state.simulated &= members
        state.with_rails &= members
        state.reported.keep(members)
        gone = []
        for key, (_, finding) in tuple(state.standing.items()):
            if not state.kinship.knows(finding.entity_id):
                del state.standing[key]
                text = f"{finding.summary}; silent for so long that it is forgotten"
                gone.append(replace(finding, time_ns=now_ns, status=FindingStatus.CLEARED, summary=text))
        # The book finds its incidents by where they were.
        return tuple(gone), state.book.step(gone, now_ns, before) if gone else ()

    def _unfolded(self, found: Sequence[Finding], now_ns: int) -> tuple[list[Finding], int]:
        """Return the findings that no node reported itself, and those cleared because one does now."""
        state = self.state
        kept: list[Finding] = []
        folded = 0
        for finding in found:
            key, node = finding_key(finding), state.kinship.top(finding.entity_id).partition(":")[2]
            if finding.status is FindingStatus.CLEARED:
                if state.standing.pop(key, None) is not None:
                    kept.append(finding)
            elif state.reported.explains(node, finding.cause, finding.entity_id, now_ns):
                folded += 1
            else:
                raised = key in state.standing
                status = finding.status if raised else FindingStatus.RAISED
                kept.append(replace(finding, status=status))
                state.standing[key] = node, finding
        for key, (node, finding) in tuple(state.standing.items()):
            if state.reported.explains(node, finding.cause, finding.entity_id, now_ns):
                del state.standing[key]
                text = f"{finding.summary}; {node} reports it itself"
                kept.append(replace(finding, time_ns=now_ns, status=FindingStatus.CLEARED, summary=text))
                folded += 1
        return kept, folded
