"""What a decision asks for outside the GPU: schedulers, programs, jobs, people and board controllers."""
