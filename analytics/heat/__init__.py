"""Heat: thermal resistance in steady windows, what is normal for a slot, and how a GPU warms."""
