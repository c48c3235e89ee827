"""How unlike its healthy past a table of series looks, row by row: one score for all columns, and a flag by budget."""
