"""Voltage rails read at the speed of their sensors."""
