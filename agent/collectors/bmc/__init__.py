"""The board's management controller as a source: its sensors and its event log, by IPMI or by Redfish."""
