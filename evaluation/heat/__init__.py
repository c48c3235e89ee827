"""Suite `heat`: cooling that fails, and cooling that does not, under recorded loads."""
