"""Power curve of each board, learnt from its own rows."""
