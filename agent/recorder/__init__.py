"""The flight recorder: what the rings, the journals and the kernel log bring is kept, and written when it is wanted."""
