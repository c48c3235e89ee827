"""The flight recorder: keeps the newest rows, records and kernel-log lines, and writes recordings of what was found."""
