import pytest

from bench import simulator
from bench.subjects.simulating import SUBJECTS, node_of


@pytest.mark.parametrize("gpus", simulator.GPUS)
def test_a_node_may_have_any_number_of_gpus(gpus: int) -> None:
    node = node_of(gpus)
    assert node.gpu_count == gpus
    assert len({slot.pci for slot in node.slots}) == gpus


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_takes_some_time(subject: str) -> None:
    assert SUBJECTS[subject](1, 1) >= 0.0


def test_each_row_states_what_it_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "cpu_s", lambda _subject, entities, span: 0.5 * entities * span)
    rows = {row.name: row for row in simulator.run()}
    assert rows["times_real_time"].value == pytest.approx(0.5)
    assert all(row.ratio == pytest.approx(1.0) for row in rows.values() if row.against is not None)
    assert rows["times_real_time"].against == "4 nodes of one GPU, one after the other"
