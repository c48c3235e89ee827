"""The front door: command line, configuration, and the one place where the parts are wired together."""

from importlib.metadata import version

__version__ = version("railwatch")
