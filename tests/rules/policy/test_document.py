"""Cases: every fact of an incident that they may set."""

from pathlib import Path

from rules.policy.cases import run_cases
from rules.policy.loading import load_policies


def test_a_case_can_report_what_is_likely_wrong_and_how_long_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "joint.yaml").write_text(
        """\
id: joint
status: experimental
why: A joint that is likely bad, deep in the voltage, and old.
source: none
when:
  root_cause: joint_ageing
  confidence: ">= 0.8"
  loss_probability: "> 0.1"
  age_s: ">= 30"
  supply: {minimum_v: "< 11.4"}
  node: {gpu_count: 2}
then: {action: notify}
cases:
  - name: fires once it is old
    node: {gpus: 2}
    incident:
      - &bad {at: 0s, cause: joint_ageing, entity_kind: supply, root_cause: joint_ageing, confidence: 0.9,
              loss_probability: 0.2, minimum_v: 11.3}
      - {<<: *bad, at: 40s}
    expect: {at: 30s, action: notify}
  - name: an unlikely one is no reason
    node: {gpus: 2}
    incident:
      - &unsure {at: 0s, cause: joint_ageing, entity_kind: supply, root_cause: joint_ageing, confidence: 0.5,
                 loss_probability: 0.2, minimum_v: 11.3}
      - {<<: *unsure, at: 40s}
    expect: none
  - name: nor is one of which nobody ranked anything
    node: {gpus: 2}
    incident: {cause: joint_ageing, entity_kind: supply, minimum_v: 11.3}
    expect: none
""",
        encoding="utf-8",
    )
    results = run_cases(load_policies([tmp_path]))
    assert [result.problems for result in results] == [(), (), ()]
