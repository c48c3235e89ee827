"""When to read: the sensors' own update times, a poll in step with them, and a budget over both. Pure."""
