"""Source resistance and open-circuit voltage of supply paths, from voltage and current."""
