"""The node: collectors, sampler, ring, edge guard, actuators, spool and uplink."""
