"""Actuators of decisions outside the GPU: schedulers, programs, jobs, people and board controllers."""
