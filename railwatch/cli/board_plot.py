"""Plot of a power curve as text: power over clock, with bounds and the clocks that were seen."""

from collections.abc import Sequence

from railwatch.operator.board_curves import CurvePoint

_ROWS, _GAP = 14, 3
# From the weakest mark to the strongest, which covers the others.
_BOUND, _PREDICTED, _SEEN = ":", "*", "o"
_MARGIN_W = 8


def curve_plot(points: Sequence[CurvePoint]) -> list[str]:
    """Return the lines of a plot of at least two points, ascending in clock; under 80 columns for 17 points."""
    top_w = max(point.high_w for point in points)
    columns = _GAP * (len(points) - 1) + 1
    grid = [[" "] * columns for _ in range(_ROWS + 1)]
    for place, point in enumerate(points):
        low, high = _row(point.low_w, top_w), _row(point.high_w, top_w)
        for row in range(high, low + 1):
            grid[row][_GAP * place] = _BOUND
        grid[_row(point.power_w, top_w)][_GAP * place] = _SEEN if point.seen_s else _PREDICTED
    lines = [f"{_label(row, top_w):>{_MARGIN_W}} |{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    lines.append(f"{'':>{_MARGIN_W}} +{'-' * columns}")
    first, last = f"{points[0].clock_mhz:.0f}", f"{points[-1].clock_mhz:.0f} MHz"
    lines.append(f"{'':>{_MARGIN_W}}  {first}{last:>{columns - len(first)}}")
    lines.append(f"{'':>{_MARGIN_W}}  {_SEEN} seen   {_PREDICTED} predicted   {_BOUND} 95 % bounds")
    return lines


def _row(power_w: float, top_w: float) -> int:
    return _ROWS - round(_ROWS * max(power_w, 0.0) / top_w)


def _label(row: int, top_w: float) -> str:
    """Return the power of every other row."""
    return f"{top_w * (_ROWS - row) / _ROWS:.0f} W" if row % 2 == 0 else ""
