"""The built-in live page: one node's rails, heat and clocks, its incidents, and what railwatch did about them."""
