"""Change points of any series: pure steps over arrays of series, state in and state out."""
