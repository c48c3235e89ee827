"""What is wrong, in ranked answers: signs read from findings and events, weighed by a visible table."""
