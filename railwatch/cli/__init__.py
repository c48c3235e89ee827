"""The command line: one file a command, and exit statuses that mean the same everywhere."""

import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it as quietly as later."""
    gc.disable()  # until the command is loaded, which leaves hardly any garbage
    # None is wanted in a process that acts on hardware, and looking for them reads every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if sys.argv[1:2] == ["up"]:  # its arrays are small, and a thread of OpenBLAS spins while everything else is loaded
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from railwatch.cli.app import main as run  # noqa: PLC0415 -- loading takes long enough to be interrupted
    except KeyboardInterrupt:
        sys.exit(130)
    run()
