"""What people look at: the built-in page and Grafana dashboards as code."""
