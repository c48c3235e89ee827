"""Jobs: the load of every GPU in each millisecond."""
