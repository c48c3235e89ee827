"""The command line: one file a command, and exit statuses that mean the same everywhere."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it as quietly as later."""
    try:
        from railwatch.cli.app import main as run  # noqa: PLC0415 -- loading takes long enough to be interrupted
    except KeyboardInterrupt:
        sys.exit(130)
    run()
