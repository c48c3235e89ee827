import pytest

from railwatch.evaluation.workers import each, processes


@pytest.mark.parametrize("n_processes", [1, 2])
def test_results_come_in_the_order_of_the_work_and_each_is_told_once(n_processes: int) -> None:
    told: list[None] = []
    assert list(each(abs, [-3, -1, -2], done=lambda: told.append(None), n_processes=n_processes)) == [3, 1, 2]
    assert len(told) == 3


@pytest.mark.parametrize("n_processes", [1, 2])
def test_what_a_worker_raises_is_raised_here(n_processes: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(each(int, ["1", "no"], done=lambda: None, n_processes=n_processes))


def test_there_is_at_least_one_processor() -> None:
    assert processes() >= 1
