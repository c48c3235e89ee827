"""Constants of estimates: points of the normal distribution, and the gates of an estimate of a supply path."""

import math

# Standard deviations of the lower end of one-sided, and of either end of two-sided, 95 % bounds.
Z_LOWER = 1.645
Z_BOTH = 1.96
# Standard deviation over median absolute deviation.
MAD_TO_SD = 1.4826
# Standard error of a median over that of a mean.
MEDIAN_TO_MEAN = math.sqrt(math.pi / 2.0)
# Variance of a uniform error over one step of a scale, in steps squared (JCGM 100:2008, F.2.2.1).
STEP_VARIANCE = 1.0 / 12.0


# Least change of current for an estimate: 1 A, or 3 % of the largest current. A smaller change moves V by less than the
# 9 mV of residuals on real 12 V feeds (Oxford GPU_Power_Benchmark), and recursive least squares with forgetting winds
# up on noise without excitation (doi 10.1186/s10033-023-00846-0).
MIN_SPREAD_A = 1.0
MIN_SPREAD_RATIO = 0.03
# heuristic: least correlation of voltage and current, with its sign reversed.
MIN_CORRELATION = 0.9
