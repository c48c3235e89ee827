"""What runs on the GPUs: each job says how hard it drives every GPU in each millisecond."""
