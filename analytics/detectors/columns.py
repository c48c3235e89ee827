"""Optional columns and bit masks of a frame."""

import numpy as np

from telemetry.frames import FloatArray, Frame, MaskArray


def optional(frame: Frame, name: str) -> FloatArray:
    """Return a signal, shape ``(n_times, n_entities)``; all NaN where the table does not have it."""
    if name in frame.spec.signals:
        return frame.signal(name)
    return np.broadcast_to(np.nan, frame.values.shape[:2])


def renewed(frame: Frame, name: str) -> MaskArray:
    """Return a mask of new values of a signal, shape ``(n_times, n_entities)``; none where the table lacks it."""
    if name in frame.spec.signals:
        return frame.fresh[:, :, frame.spec.signals.index(name)]
    return np.zeros(frame.values.shape[:2], dtype=np.bool_)


def bits_set(flags: FloatArray, mask: int) -> MaskArray:
    """Return a mask of values with any bit of `mask` set; False where the flags are NaN."""
    known = ~np.isnan(flags)
    set_there: MaskArray = (np.where(known, flags, 0.0).astype(np.int64) & mask) != 0
    return set_there
