"""False alarms as a budget: from healthy time to the threshold that a rate of alarms allows, and what was achieved."""
