"""Rehearsals of a simulated fleet, with the real loop, limits, signatures and admission of agents."""
