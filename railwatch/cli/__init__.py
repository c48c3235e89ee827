"""The command line: one file a command, and exit statuses that mean the same everywhere."""

from railwatch.cli.app import main

__all__ = ["main"]
