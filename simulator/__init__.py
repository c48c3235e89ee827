"""A GPU node as physics, scenarios to put it through, and a driver library that other programs can load."""
