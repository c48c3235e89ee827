"""Suite `wallpower`: real wall-power traces as they are, and with faults put in."""
