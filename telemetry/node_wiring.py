"""Measurement by which a node sends its described wiring to the store, for the fleet."""

WIRING = "wiring"
# Number of the schema, and the document as JSON, empty where the node describes no wiring.
SCHEMA_FIELD, DOCUMENT_FIELD = "schema", "document"
# heuristic: 2 KiB every ten minutes are a third of a MiB a day before the server packs them.
REPORT_EVERY_S = 600.0
