"""When a policy applies: conditions over the facts of an incident and its node."""
