"""The built-in page, and Grafana dashboards as code."""
