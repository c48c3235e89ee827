"""How right the judgement is: suites as data, runs, scores, and a table in which every row has its goal."""
