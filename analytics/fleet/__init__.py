"""The fleet: windows of many nodes judged by the detectors of a node, and causes that several nodes share."""
