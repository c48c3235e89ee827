"""How good scores and alarms were, by measures that luck and long events do not flatter."""
