"""Generated reference pages, the sample configuration and the Grafana dashboards."""
