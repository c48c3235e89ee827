"""Log lines of the processes of a node among the lines of ``railwatch up``."""

import logging

from railwatch.processes.child import log_lines


def test_a_warning_is_one_line_with_the_time_and_no_name_of_a_module() -> None:
    record = logging.LogRecord("agent.sampler.sampler", logging.WARNING, "sampler.py", 1, "%s is slow", ("ipmi",), None)
    record.created = 3_723.5
    assert log_lines().format(record) == "01:02:03  WARNING  ipmi is slow"
