"""What holds for every test."""

from hypothesis import HealthCheck, settings

# A machine that does much else is slow for a moment: no example has a time limit of its own, the whole test has.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples at each run: a suite that fails has to fail again. `make soak` looks for others.
settings.register_profile("railwatch", _PATIENT, derandomize=True, database=None)
settings.register_profile("explore", _PATIENT, derandomize=False)
settings.load_profile("railwatch")
