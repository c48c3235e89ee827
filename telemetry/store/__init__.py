"""Where samples and records are kept: one port, an embedded store and a reader of InfluxDB."""
