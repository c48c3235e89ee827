"""Policies as text of their files: one of a node, one of the fleet."""

REPORT = """\
id: supply-sag-clock-cap
status: experimental
why: On this node a person wants to know, and no more.
source: the operator of node 7
when: {cause: supply_sag}
then: {action: notify, cooldown: 10m}
cases:
  - {name: tells, incident: {cause: supply_sag, entity_kind: supply}, expect: {action: notify}}
  - {name: quiet, incident: {cause: gpu_lost}, expect: none}
"""

FLEET = """\
id: mine
status: experimental
why: it sags
source: my own
when: {cause: input_sag}
then: {action: clock_cap, target: nodes_under, clock: 0.7}
cases:
  - {name: acts, incident: {cause: input_sag}, nodes: 40, racks: 4, expect: 4}
  - {name: does not, incident: {cause: airflow}, expect: 0}
"""
