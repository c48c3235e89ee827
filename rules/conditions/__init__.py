"""When a policy applies: requirements on the facts of an incident and its node."""
