"""Return codes that the tests name, nvmlReturn_t of ``nvml.h``, and who may set what."""

import os

import pytest

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
GPU_IS_LOST = 15
VERSION_MISMATCH = 25
UNKNOWN = 999

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings, as on hardware")
