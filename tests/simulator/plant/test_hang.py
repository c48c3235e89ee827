import pytest

from simulator.plant.hang import HangSigns


def trace(signs: HangSigns, n_s: int, *, hung: bool, start_s: int = 0, cut_ms: int = 10) -> list[tuple[float, float]]:
    rows = []
    for start_ms in range(1000 * start_s, 1000 * (start_s + n_s), cut_ms):
        signs.advance(start_ms, cut_ms, hung=hung)
        rows.append((signs.nv_queue_ratio, signs.nv_irq_ratio))
    return rows


def test_threads_are_nearly_idle_while_all_is_well() -> None:
    rows = trace(HangSigns(1), 60, hung=False)
    assert max(queue for queue, _ in rows) < 0.05
    assert max(irq for _, irq in rows) < 0.05


@pytest.mark.parametrize("seed", range(10))
def test_a_hang_takes_a_cpu_for_nv_queue_at_once_and_one_for_the_interrupt_5_to_30_seconds_later(seed: int) -> None:
    signs = HangSigns(seed)
    trace(signs, 10, hung=False)
    rows = trace(signs, 40, hung=True, start_s=10)
    assert min(queue for queue, _ in rows) >= 0.95
    first = next(index for index, (_, irq) in enumerate(rows) if irq >= 0.95)
    assert 500 <= first <= 3000 + 100
    assert min(irq for _, irq in rows[first:]) >= 0.95
    assert max(max(row) for row in rows) <= 1.0


def test_the_end_of_a_hang_shows_at_once() -> None:
    signs = HangSigns(3)
    trace(signs, 40, hung=True)
    rows = trace(signs, 10, hung=False, start_s=40)
    assert max(max(row) for row in rows) < 0.05


def test_values_do_not_depend_on_how_time_is_cut() -> None:
    fine, coarse = HangSigns(4), HangSigns(4)
    trace(fine, 5, hung=False)
    trace(coarse, 5, hung=False, cut_ms=500)
    assert trace(fine, 40, hung=True, start_s=5)[-1] == trace(coarse, 40, hung=True, start_s=5, cut_ms=500)[-1]
