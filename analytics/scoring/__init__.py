"""Quality of scores and alarms, by measures that chance and long events do not inflate."""
