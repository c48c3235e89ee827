"""The agent's side of what a fleet service asks: who asks, whether it may, whether it is fresh, and the own rails."""
