"""The fleet daemon: reads every node's windows from the store, judges them, and writes what it found beside them."""
