"""Suite `series`: general detectors side by side on public labelled series."""
