"""Certificates and tokens of a fleet: issuing, checking, expiry."""
