from dataclasses import replace

from analytics.connectivity import Kinship
from analytics.connectivity.graph import Tie, typed_graph, with_inferred
from telemetry.entities import Entity, EntityKind, Topology
from tests.analytics.scenes import gpu, node_of


def test_every_edge_of_a_topology_has_a_meaning() -> None:
    ties = {(edge.source_id, edge.target_id): edge.tie for edge in typed_graph(node_of(2, 1))}
    assert ties["supply:psu0", "gpu:GPU-0"] is Tie.FEEDS
    assert ties["node:box", "supply:psu0"] is Tie.HOLDS


def test_tags_give_the_edges_that_nobody_declared() -> None:
    node = Entity(kind=EntityKind.NODE, key="n1", name="n1")
    ranks = [replace(gpu(number), tags=(("node", "n1"), ("job", "train"))) for number in range(3)]
    link = Entity(kind=EntityKind.LINK, key="l0", name="l0", tags=(("gpu", "GPU-0"), ("peer", "GPU-1")))
    bare = Topology(entities=(node, *ranks, link))
    edges = {(edge.source_id, edge.target_id): edge for edge in typed_graph(bare)}
    assert all(edge.is_inferred for edge in edges.values())
    assert edges["node:n1", "gpu:GPU-2"].tie is Tie.HOLDS
    assert edges["gpu:GPU-1", "link:l0"].tie is Tie.JOINS
    assert edges["gpu:GPU-2", "gpu:GPU-0"].tie is Tie.SHARES_JOB
    kinship = Kinship.of(with_inferred(bare))
    assert kinship.common_root([one.id for one in ranks]) == "node:n1"
    assert kinship.descendants("gpu:GPU-1") == {"link:l0"}


def test_a_declared_edge_is_not_inferred_again_and_unknown_names_give_none() -> None:
    node = Entity(kind=EntityKind.NODE, key="n1", name="n1")
    known = replace(gpu(0), tags=(("node", "n1"),))
    strange = replace(gpu(1), tags=(("node", "elsewhere"),))
    edges = typed_graph(Topology(entities=(node, known, strange), edges=((node.id, known.id),)))
    assert [(edge.target_id, edge.is_inferred) for edge in edges] == [("gpu:GPU-0", False)]
