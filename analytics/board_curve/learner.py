"""Curves of all boards of a node, learnt from the rows of its GPU tables, and kept over a restart."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from analytics.board_curve.kept import KeptBoard, Restored, pack_boards, read_boards
from analytics.board_curve.learning import BoardState, begin, learn
from analytics.board_curve.windows import LoadWindow, WindowCutter
from physics.board_curve import BoardCurve
from physics.board_parts import curve_of, part_of
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec

# heuristic: of boards that were taken out; a node has at most sixteen.
_ABSENT_MOST = 64
# heuristic: drivers list the highest clock to 1 MHz; another one means another board or another list.
_SAME_CLOCK_RATIO = 0.01
# Idle power over the board power at most: an A40 with a context and nothing to do draws 110 of 300 W
# (github.com/NVIDIA/open-gpu-kernel-modules/issues/874). heuristic: of an unknown part, three times its assumed idle.
_IDLE_MOST_RATIO, _UNKNOWN_IDLE_MOST = 0.4, 3.0
_NO_CLOCKS: Mapping[str, tuple[float, ...]] = MappingProxyType({})


class BoardLearner:
    """Learner of the curve of each GPU with a known name and highest clock; one thread owns it.

    Parameters
    ----------
    specs
        The tables whose rows will come.
    supported_mhz
        The clocks that can be set, by GPU UUID; the last one is the highest clock. Without it, the highest clock is the
        signal ``max_sm_clock_mhz`` or that of the table of parts.

    A row costs 1 to 2 us per GPU: 0.4 us to keep it, the rest its share of a window of three seconds.
    """

    def __init__(
        self, specs: Iterable[TableSpec], *, supported_mhz: Mapping[str, tuple[float, ...]] = _NO_CLOCKS
    ) -> None:
        gpus = [spec for spec in specs if spec.kind is EntityKind.GPU]
        self._cutters: dict[str, WindowCutter] = {}
        self._listed: set[str] = set()
        self.take_tables(gpus)
        entities = {entity.id: entity for spec in gpus for entity in spec.entities}
        self._entities = {name: one for name, one in entities.items() if one.tag("model")}
        self._clocks_mhz = {
            name: tuple(sorted({*supported_mhz.get(one.key, ())})) for name, one in self._entities.items()
        }
        self._max_mhz = {name: clocks[-1] for name, clocks in self._clocks_mhz.items() if clocks}
        self._states: dict[str, BoardState] = {}
        self._absent: dict[str, KeptBoard] = {}
        # Before a row came, the table's.
        fresh = {name: curve_of(one.tag("model")) for name, one in self._entities.items()}
        self._curves = {name: curve for name, curve in fresh.items() if curve is not None}
        self.curves: Mapping[str, BoardCurve] = MappingProxyType(self._curves)

    def take_tables(self, specs: Iterable[TableSpec]) -> None:
        """Learn also from these tables; their boards are those of the first ones."""
        for spec in (one for one in specs if one.kind is EntityKind.GPU):
            if WindowCutter.takes(spec):
                self._cutters.setdefault(spec.name, WindowCutter(spec))
            if "max_sm_clock_mhz" in spec.signals:
                self._listed.add(spec.name)

    @property
    def states(self) -> Mapping[str, BoardState]:
        """State of each board that showed rows, by entity id."""
        return MappingProxyType(self._states)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The GPUs whose curves are learnt."""
        return tuple(self._entities.values())

    def feed(self, frame: Frame) -> None:
        """Take in new rows; tables without power and clock of GPUs are ignored."""
        if not len(frame):
            return
        if frame.spec.name in self._listed:
            self._note_clocks(frame)
        cutter = self._cutters.get(frame.spec.name)
        if cutter is None:
            return
        for windows in cutter.feed(frame):
            for entity, window in zip(cutter.spec.entities, windows, strict=True):
                if window is not None and entity.id in self._entities:
                    self._learn(entity.id, window)

    def state_of(self, entity_id: str) -> BoardState | None:
        """Return the state of a board, from the table if it showed no rows; None if its highest clock is not known."""
        found = self._states.get(entity_id)
        entity = self._entities.get(entity_id)
        curve = self._curves.get(entity_id)
        if found is not None or entity is None or curve is None:
            return found
        model = entity.tag("model") or ""
        part = part_of(model)
        max_mhz = self._max_mhz.get(entity_id, None if part is None else part.max_mhz)
        if max_mhz is None:
            return None
        idle_most_w = _UNKNOWN_IDLE_MOST * curve.idle_w if part is None else _IDLE_MOST_RATIO * part.board_w
        return begin(
            curve,
            model=model,
            max_mhz=max_mhz,
            idle_most_w=idle_most_w,
            clocks_mhz=self._clocks_mhz.get(entity_id, ()),
        )

    def learnt(self, _now_ns: int) -> Callable[[], bytes]:
        """Return a function that packs the present curves; any thread may call it."""
        return partial(pack_boards, dict(self._states), dict(self._absent))

    def take_learnt(self, blob: bytes, _now_ns: int) -> Restored:
        """Restore curves from before a restart; ValueError if they are damaged, and nothing is changed."""
        kept = read_boards(blob)
        taken: list[str] = []
        others: list[str] = []
        for entity_id, board in kept.items():
            start = self.state_of(entity_id)
            is_same = start is not None and _is_same(board, start)
            if start is None or (not is_same and entity_id not in self._max_mhz):
                self._absent[entity_id] = board
            elif not is_same:
                others.append(entity_id)
            else:
                self._keep(entity_id, board.state(start))
                taken.append(entity_id)
        self._absent = dict(list(self._absent.items())[-_ABSENT_MOST:])
        return Restored(taken=tuple(taken), others=tuple(others), absent=tuple(self._absent))

    def _learn(self, entity_id: str, window: LoadWindow) -> None:
        state = self.state_of(entity_id)
        if state is None:
            return
        # A board whose highest clock comes with its rows is known again from here on.
        board = None if entity_id in self._states else self._absent.pop(entity_id, None)
        if board is not None and _is_same(board, state):
            state = board.state(state)
        self._keep(entity_id, learn(state, window))

    def _keep(self, entity_id: str, state: BoardState) -> None:
        self._states[entity_id] = state
        self._curves[entity_id] = state.curve

    def _note_clocks(self, frame: Frame) -> None:
        """Note the highest clock of boards whose clocks cannot be set, once, before their first window."""
        for entity, clock_mhz in zip(frame.spec.entities, frame.signal("max_sm_clock_mhz")[-1].tolist(), strict=True):
            if clock_mhz > 0.0 and entity.id not in self._states:
                self._max_mhz.setdefault(entity.id, clock_mhz)


def _is_same(board: KeptBoard, state: BoardState) -> bool:
    """Return True if a curve that was kept is that of this board: same name, same highest clock."""
    off_mhz = abs(board.max_mhz - state.max_mhz)
    return board.model == state.model and off_mhz <= _SAME_CLOCK_RATIO * state.max_mhz
