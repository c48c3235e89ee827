"""Meters outside the node: power distribution units over SNMP, uninterruptible supplies over NUT."""
