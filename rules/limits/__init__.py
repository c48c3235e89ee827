"""Limits that restrain every action: modes, budgets, cooldowns, circuit breakers."""
