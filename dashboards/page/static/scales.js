// Axes whose ends are labelled like the places between them.

/** Return an axis of about so many intervals around two values. */
export function scale(low, high, intervals) {
  const interval = niceStep((high - low) / intervals);
  return { min: rounded(low, -interval), max: rounded(high, interval), interval };
}

/** Round up to a step, or down to a negative one, without the dust of binary fractions. */
export function rounded(value, step) {
  const size = Math.abs(step);
  const count = step > 0 ? Math.ceil(value / size - 1e-9) : Math.floor(value / size + 1e-9);
  return Number((count * size).toFixed(6));
}

/** Return the least of 1, 2, 5, 10, 20, ... that is not below a value. */
export const niceStep = (value) => leastOf([1, 2, 5, 10], value);

/** Return the least of 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, ... that is not below a value. */
export const finerStep = (value) => leastOf([1, 1.5, 2, 3, 4, 5, 6, 8, 10], value);

function leastOf(factors, value) {
  const decade = 10 ** Math.floor(Math.log10(Math.max(value, 1e-3)));
  return factors.map((factor) => Number((factor * decade).toFixed(6))).find((step) => step >= value - 1e-9);
}

/** Return how many decimals the labels of an axis with this step need. */
export const decimalsOf = (step) => (step >= 1 ? 0 : step >= 0.1 ? 1 : 2);
