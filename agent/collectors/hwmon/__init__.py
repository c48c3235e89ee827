"""Collectors over the kernel's hwmon tree: supply rails, board sensors, power supplies, fans."""
