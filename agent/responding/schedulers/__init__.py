"""Schedulers that drain and requeue: Slurm and Kubernetes."""
