"""What benchmarks measure, one subject a process; a package of its own so that a subject loads only what it uses."""
