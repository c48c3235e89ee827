"""Suite `supply`: source resistance of real recordings, and joints that age for months."""
