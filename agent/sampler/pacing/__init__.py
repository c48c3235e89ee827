"""Pace of reads: update times of the sensors, polls in step with them, and a budget. Pure."""
