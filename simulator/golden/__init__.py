"""The golden table: what the field report tells in numbers, and what the simulator makes of it."""
