"""Where a character of a value stands in its file, and what cases may tell of an incident."""

from pathlib import Path

import pytest

from rules.policy.cases import run_cases
from rules.policy.loading import load_policies
from rules.policy.text_positions import scalar_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("when: abc def\n", (1, 11)),
        ("id: x\nwhen:   abc def\n", (2, 13)),
        ("when: 'abc def'\n", (1, 12)),
        ('when: "abc def"  # why\n', (1, 12)),
        ("when: >-\n  abc\n  def\nthen: 1\n", (3, 3)),
        ("when: |\n   abc\n   def\n", (3, 4)),
        ("when: >\n  abc\n  def\n\n\nthen: 1\n", (3, 3)),
        ("when: abc\n  def\n", (2, 3)),
        ("{id: x, when: abc def}\n", (1, 19)),
    ],
)
def test_the_place_of_a_character_is_counted_back_to_the_file(text: str, place: tuple[int, int]) -> None:
    assert scalar_place(text, "when", 4) == place
    line, column = place
    assert text.splitlines()[line - 1][column - 1 :].startswith("def")


@pytest.mark.parametrize("text", ['when: "ab\\x63 def"\n', "why: abc def\n", "when: [a]\n", "[when]\n"])
def test_what_cannot_be_counted_back_has_no_place(text: str) -> None:
    assert scalar_place(text, "when", 4) == (None, None)


def test_a_case_can_report_what_is_likely_wrong_and_how_long_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "joint.yaml").write_text(
        """\
id: joint
status: experimental
why: A joint that is likely bad, deep in the voltage, and old.
source: none
when: >-
  incident.root_cause == 'joint_ageing' && incident.confidence >= 0.8 && incident.loss_probability > 0.1
  && incident.age_s >= 30.0 && supply.minimum_v < 11.4 && node.gpu_count == 2
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
