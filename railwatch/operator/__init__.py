"""Operator-facing parts: incident stories, commands to the guard, releases, verification."""
