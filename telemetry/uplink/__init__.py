"""From the spool to the store: one sender, and a destination per kind of server."""
