"""False-alarm budget: thresholds from healthy time for a rate of alarms, and the rate achieved."""
