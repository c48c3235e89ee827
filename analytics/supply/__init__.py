"""What a supply path is made of, told from its own voltage and current."""
