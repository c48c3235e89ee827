"""Suite `domain`: random machines of another plant than the simulator, every fault on many of them."""
