"""Suite `judgement`: simulated failures and hard negatives through the live pipeline."""
