"""Which collectors and event sources a node gets, and what is missing for the others."""
