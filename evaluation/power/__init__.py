"""Suite `power`: measured recordings of real power, with faults put in, as a ruler for any judge."""
