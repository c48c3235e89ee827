"""Grafana dashboards as code, over InfluxQL: the one query language that every major version of InfluxDB reads."""

from dashboards.grafana.balance import build_dashboards, generated_files

__all__ = ["build_dashboards", "generated_files"]
