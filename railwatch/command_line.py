"""The command line of this process as ``ps`` shows it."""

import ctypes
import logging
import os
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

# Fields of /proc/PID/stat behind the name's closing bracket, see proc(5): field 48 is arg_start, 51 is env_end.
_ARG_START, _ENV_END = 48 - 3, 51 - 3


def set_command_line(arguments: Sequence[str]) -> None:
    """Overwrite the arguments that this process was started with.

    The kernel keeps arguments and environment in one piece of memory. Where the last byte of the arguments is not NUL,
    it shows the text up to the first NUL (fs/proc/base.c, `get_mm_proctitle`), hence the blanks between arguments.
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    start, arg_end, env_start, end = (int(field) for field in fields[_ARG_START : _ENV_END + 1])
    text = " ".join(arguments).encode() + b"\0"
    if not start or arg_end != env_start or end - start < len(text):
        logger.debug("this process keeps the command line of its parent")
        return
    for name, value in os.environ.items():
        os.putenv(name, value)  # out of the memory that is overwritten
    ctypes.memset(start, 0, end - start)
    ctypes.memset(arg_end - 1, ord(" "), 1)
    ctypes.memmove(start, text, len(text))
