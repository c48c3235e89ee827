"""The embedded store of samples, the file of records, and the InfluxQL client."""
