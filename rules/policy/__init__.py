"""Policies as YAML files: format, loading, cases, explanation."""
