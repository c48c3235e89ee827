"""The simulated node behind its real interfaces: files, logs, controllers and services that other programs read."""
