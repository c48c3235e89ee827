"""Readers of small sysfs and /proc files through descriptors that stay open."""
