import logging
import os
import signal
import threading
from multiprocessing import active_children, get_context

import pytest

from evaluation.workers import each, none_left_at_work, processes


def interrupted(number: int) -> int:
    """Return the number, after what a terminal sends to every process at Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    return number


def warned(number: int) -> int:
    """Return the number, after a warning of what happens in a simulated world."""
    logging.getLogger("agent.actuation").warning("clock cap of gpu%d failed", number)
    return number


def time_out() -> None:
    threading.Event().wait(110.0)


def only_the_first_is_quick(number: int) -> int:
    """Return the first number at once, and the others after minutes."""
    if number:
        time_out()
    return number


@pytest.mark.parametrize("n_processes", [1, 2])
def test_results_come_in_the_order_of_the_work_and_each_is_reported_once(n_processes: int) -> None:
    reported: list[None] = []
    assert list(each(abs, [-3, -1, -2], done=lambda: reported.append(None), n_processes=n_processes)) == [3, 1, 2]
    assert len(reported) == 3


@pytest.mark.parametrize("n_processes", [1, 2])
def test_what_a_worker_raises_is_raised_here(n_processes: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(each(int, ["1", "no"], done=lambda: None, n_processes=n_processes))


def test_there_is_at_least_one_processor() -> None:
    assert processes() >= 1


def test_a_worker_leaves_it_to_its_parent_what_an_interruption_means() -> None:
    assert list(each(interrupted, [1, 2], done=lambda: None, n_processes=2)) == [1, 2]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_a_simulated_world_warns_of_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(each(warned, [1, 2], done=lambda: None, n_processes=2)) == [1, 2]
    assert capfd.readouterr().err == ""


def test_an_interrupted_caller_waits_for_no_worker() -> None:
    child = get_context("spawn").Process(target=time_out, daemon=True)
    with pytest.raises(KeyboardInterrupt), none_left_at_work():  # noqa: PT012 -- what is begun inside is what counts
        child.start()
        raise KeyboardInterrupt
    child.join(60.0)
    assert child.exitcode == -signal.SIGTERM


def test_a_signal_while_a_result_is_awaited_stops_the_workers_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def ended(*_: object) -> None:
        raise SystemExit(143)

    results = each(only_the_first_is_quick, range(30), done=lambda: None, n_processes=2)
    assert next(results) == 0
    before = signal.signal(signal.SIGALRM, ended)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(SystemExit):
            next(results)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not active_children()
    assert capfd.readouterr().err == ""
