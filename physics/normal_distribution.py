"""Constants of the normal distribution (Kenney and Keeping, Mathematics of Statistics, 1962, section 11.9)."""

# Standard deviations of the lower end of one-sided, and of either end of two-sided, 95 % bounds.
Z_LOWER = 1.645
Z_BOTH = 1.96
# Standard deviation over median absolute deviation.
MAD_TO_SD = 1.4826
# Standard error of a median over that of a mean.
MEDIAN_TO_MEAN = 1.2533
