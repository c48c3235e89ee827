"""The suite `pins`: real recordings of a power connector, as they are and with faults put in."""
