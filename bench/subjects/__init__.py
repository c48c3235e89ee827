"""Subjects of benchmarks, one a process, so that a subject loads only what it uses."""
