"""Evaluation of the judgement: suites as data, runs, scores, rehearsals, replays and calibration."""
