"""The front door: command line, configuration, and the one place where the parts are wired together."""
