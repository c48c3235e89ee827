"""Reset of learnt state for entities that an operator accepted as they are now."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np

from telemetry.frames import MaskArray

_State = TypeVar("_State")


def reset_where(state: _State, fresh: _State, where: MaskArray) -> _State:
    """Return a dataclass of arrays with the values of `fresh` for the marked entities ``(n_entities,)``.

    The first axis of every array is the entity; dataclasses within are taken in the same way.
    """
    kind: Callable[..., _State] = type(state)
    names = (one.name for one in fields(cast("Any", state)))
    return kind(**{name: _chosen(getattr(state, name), getattr(fresh, name), where) for name in names})


def _chosen(held: Any, fresh: Any, where: MaskArray) -> Any:
    if is_dataclass(held):
        return reset_where(held, fresh, where)
    return np.where(where.reshape(-1, *[1] * (held.ndim - 1)), fresh, held)
