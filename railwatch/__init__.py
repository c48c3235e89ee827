"""The front door: command line, configuration, and the one place where the parts are wired together."""

__version__ = "0.1.0"  # a constant: reading the metadata of the package takes a tenth of a start
