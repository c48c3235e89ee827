"""The ring: the newest minutes of every table at full rate, in files that processes map into memory."""
