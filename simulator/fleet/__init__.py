"""The second tier: one closed form per step, so that fleets live through months in seconds."""
