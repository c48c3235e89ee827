"""Present state of the fleet for the acting part: open incidents with their nodes, and nodes with their racks."""

from functools import lru_cache

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import ByIdentity
from analytics.fleet.common_mode import nodes_under
from rules.fleet.orders import FleetIncident, FleetView
from telemetry.entities import EntityKind, Topology
from telemetry.records import Incident

_RACK, _NODE = f"{EntityKind.FAN}:rack/", f"{EntityKind.NODE}:"


def incidents_of(incidents: tuple[Incident, ...], kinship: Kinship) -> tuple[FleetIncident, ...]:
    """Return incidents with the nodes under each."""
    return tuple(
        FleetIncident(incident=incident, nodes=tuple(sorted(nodes_under(incident.entity_id, ByIdentity(kinship)))))
        for incident in incidents
    )


def view_of(nodes: tuple[str, ...], topology: Topology, reporting: frozenset[str]) -> FleetView:
    """Return the members of the fleet with their racks, empty where the rack is unknown."""
    racks = dict.fromkeys(nodes, "") | _racks(ByIdentity(topology))
    return FleetView(racks=racks, reporting=reporting & frozenset(nodes))


@lru_cache(maxsize=4)
def _racks(topology: ByIdentity[Topology]) -> dict[str, str]:
    """Return the rack of each node that has one."""
    pairs = ((parent, child) for parent, child in topology.it.edges if parent.startswith(_RACK))
    return {child.removeprefix(_NODE): parent.removeprefix(_RACK) for parent, child in pairs}
