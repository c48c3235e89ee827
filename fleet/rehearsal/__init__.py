"""A fleet that is made up, before the real loop, the real rails and the real desks of agents."""
