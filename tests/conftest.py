"""What holds for every test."""

from hypothesis import settings

# A machine that does much else is slow for a moment: no example has a time limit of its own, the whole test has.
settings.register_profile("railwatch", deadline=None)
settings.load_profile("railwatch")
