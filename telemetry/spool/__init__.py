"""The spool: encoded lines on disk until the store has them; bounded, safe against kill -9."""
