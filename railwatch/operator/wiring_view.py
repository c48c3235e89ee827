"""Drawing of a wiring in text: feeds, shelves, buses with supplies, branches and plugs, and what is unknown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from analytics.supply.standing import StandingVerdict
from physics.bus_readings import bus_shown
from physics.feeding import feeding_of, wiring_of_topology, with_described_tags
from physics.link_loads import NOT_METERED, LinkKind, LinkLoad, branch_loads
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, rail_class_of
from physics.wiring import Branch, Bus, MainsFeed, Origin, Plugs, Shelf, WiredSupply, Wiring, is_shown_by
from railwatch.operator.standing import OVER
from railwatch.operator.wiring_values import LOAD_S, GpuValues, SupplyValues, WiringValues
from telemetry.entities import SOURCE_TAG, Entity, EntityKind, Topology, label_list, label_of
from telemetry.quantities import duration
from telemetry.ratings import rated_power_w

# GPUs on one line of a branch, so that a line has 80 columns at most.
_GPUS_A_LINE, _GPU_COLUMNS = 4, 72
_NAME_COLUMNS, _BOARD_COLUMNS, _WAY_COLUMNS = 18, 40, 73
OVER_IN_ROW = "% over"
ORIGINS = {
    Origin.CONFIGURED: "as described under topology: in the configuration",
    Origin.SIMULATED: "as the simulated node is built; plugs and feeds are unknown",
    Origin.RECORDED: "from the edges of the recording; plugs and feeds are unknown",
    Origin.INFERRED: "inferred from nominal voltages: not described, see docs/how-to/wiring.md",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredNode:
    """A wiring with the measured parts of the node and their values; `edges` are those of the wiring between them."""

    name: str
    wiring: Wiring
    supplies: tuple[Entity, ...]
    gpus: tuple[Entity, ...]
    values: WiringValues = field(default_factory=WiringValues)
    edges: tuple[tuple[str, str], ...] = ()
    verdict: StandingVerdict | None = None

    @property
    def described_supplies(self) -> tuple[Entity, ...]:
        """Return the measured supplies with the nominal voltages that the wiring describes."""
        return tuple(with_described_tags(one, self.wiring) for one in self.supplies)

    def values_of(self, supply: WiredSupply) -> SupplyValues:
        """Return the values of a supply, each from the first of its measured entities that shows it."""
        measured = [self.values.supplies.get(one.id) for one in self.entities_of(supply)]
        shown = [one for one in measured if one is not None]

        def first(found: Iterable[float | None]) -> float | None:
            return next((value for value in found if value is not None), None)

        return SupplyValues(
            voltage_v=first(one.voltage_v for one in shown),
            lowest_v=first(one.lowest_v for one in shown),
            current_a=first(one.current_a for one in shown),
            highest_a=first(one.highest_a for one in shown),
            load_a=first(one.load_a for one in shown),
            input_w=first(one.input_w for one in shown),
        )

    def entities_of(self, supply: WiredSupply) -> tuple[Entity, ...]:
        """Return the measured entities that show a supply, in the order in which its sensors are named."""
        return tuple(one for sensor in supply.sensors for one in self.supplies if is_shown_by(one, sensor))

    def rated_w(self, supply: WiredSupply) -> float | None:
        """Return the rating of a supply, as described or as it reports; None where it is unknown."""
        if supply.rated_w is not None:
            return supply.rated_w
        reported = [float(one) for one in rated_power_w(self.entities_of(supply)) if one > 0.0]
        return next(iter(reported), None)

    def nominal_v(self, supply: WiredSupply) -> float | None:
        """Return the nominal voltage of a supply, as described or as its sensor is tagged; None where it is unknown."""
        tagged = (one.nominal_v for one in self.entities_of(supply) if one.nominal_v is not None)
        return supply.nominal_v if supply.nominal_v is not None else next(tagged, None)

    def nominal_v_of_bus(self, bus: Bus) -> float | None:
        """Return the nominal voltage of a bus as described, else as a sensor is tagged; None where it is unknown."""
        described_v = self.wiring.nominal_v_of(bus)
        shown = (self.nominal_v(one) for one in self.wiring.on_bus(bus))
        return next((one for one in shown if one is not None), None) if described_v is None else described_v

    def gpus_at(self, branch: Branch) -> tuple[Entity, ...]:
        """Return the GPUs of a branch."""
        return tuple(gpu for gpu in self.gpus if branch.feeds(gpu))

    def load_w(self, supply: WiredSupply) -> float | None:
        """Return the highest output power of a supply over some seconds; None where it is not measured."""
        values, nominal_v = self.values_of(supply), self.nominal_v(supply)
        voltage_v = nominal_v if self.is_off(supply) or values.voltage_v is None else values.voltage_v
        return None if values.load_a is None or voltage_v is None else values.load_a * voltage_v

    def power_out_w(self, supplies: Iterable[WiredSupply]) -> float | None:
        """Return the highest output power of several supplies together; None if one of them is not measured."""
        powers = [self.load_w(one) for one in supplies]
        known = [one for one in powers if one is not None]
        return sum(known) if known and len(known) == len(powers) else None

    def is_off(self, supply: WiredSupply) -> bool:
        """Return True if a supply shows so little voltage that it is off."""
        voltage_v = self.values_of(supply).voltage_v
        return voltage_v is not None and not self.holds(supply, voltage_v)

    def holds(self, supply: WiredSupply, voltage_v: float) -> bool:
        """Return True if a voltage of a supply is one of its bus: it is not that of an output that is off."""
        nominal_v = self.nominal_v(supply)
        return nominal_v is None or voltage_v > LEAST_PLAUSIBLE_RATIO * nominal_v

    def is_reading(self, supply: WiredSupply) -> bool:
        """Return True for a rail or an output that the board's controller shows beside the sensors of the supplies."""
        if self.wiring.origin not in (Origin.INFERRED, Origin.RECORDED):
            return False
        own = [one for one in self.supplies if one.tag(SOURCE_TAG) is None]
        measured = self.entities_of(supply)
        return bool(own and measured) and all(one not in own for one in measured)

    def undescribed(self) -> tuple[Entity, ...]:
        """Return the measured supplies, and rails of the board, that the wiring does not name."""
        unnamed = (one for one in self.supplies if self.wiring.supply_of(one) is None)
        return tuple(one for one in unnamed if bus_shown(one, self.wiring) is None)

    def unmeasured(self) -> tuple[WiredSupply, ...]:
        """Return the supplies that no measured entity shows."""
        return tuple(one for one in self.wiring.supplies if not self.entities_of(one))


def wired_node(
    topology: Topology, described: Wiring | None, supplies: tuple[Entity, ...], values: WiringValues | None = None
) -> WiredNode:
    """Return the node of a topology with some of its supplies; the wiring is described, else that of the edges."""
    nodes, gpus = topology.of_kind(EntityKind.NODE), topology.of_kind(EntityKind.GPU)
    known = {one.id for one in (*supplies, *gpus)}
    edges = tuple(edge for edge in topology.edges if known.issuperset(edge))
    seen = Topology(entities=(*supplies, *gpus), edges=edges)
    return WiredNode(
        name=nodes[0].name if nodes else "node",
        wiring=wiring_of_topology(seen) if described is None else described,
        supplies=supplies,
        gpus=gpus,
        values=WiringValues() if values is None else values,
        edges=edges if described is None else feeding_of(described, supplies, gpus).edges,
    )


def drawing(node: WiredNode) -> Iterator[str]:
    """Yield the lines of the drawing, at most 80 columns for names of usual length."""
    yield f"{node.name}: wiring {ORIGINS[node.wiring.origin]}"
    if node.values.span_s:
        span = duration(node.values.span_s)
        yield f"now, lowest and highest of the last {span}; loads are the highest mean over {LOAD_S:.0f} s"
    for feed in node.wiring.feeds:
        yield from ("", *_feed_lines(node, feed))
    for shelf in node.wiring.shelves:
        yield from ("", *_shelf_lines(node, shelf))
    for bus in node.wiring.buses:
        yield from ("", *_bus_lines(node, bus))
    unknown = [*unknown_lines(node)]
    if unknown:
        yield from ("", "not known", *(f"  {line}" for line in unknown))


def _feed_lines(node: WiredNode, feed: MainsFeed) -> Iterator[str]:
    fed = [one for one in node.wiring.supplies if one.feed == feed.name]
    curve = f" curve {feed.curve.value}" if feed.curve is not None else ""
    breaker = f", breaker {feed.breaker_a:g} A{curve}" if feed.breaker_a is not None else ""
    voltage = f" {feed.nominal_v:g} V" if feed.nominal_v is not None else ""
    yield f"feed {feed.name}{voltage}{breaker}"
    power_w = node.power_out_w(fed)
    load = ""
    if power_w is not None and fed:
        load = f": up to {power_w:.0f} W out"
        if feed.nominal_v is not None:
            drawn_w = sum(_input_w(node, one, feed.nominal_v) or 0.0 for one in fed)
            load += f", so about {_limited(drawn_w / feed.nominal_v, feed.breaker_a, ' A')}"
    yield f"  {label_list(label_of(one.name) for one in fed) or 'no supply'}{load}"


def _shelf_lines(node: WiredNode, shelf: Shelf) -> Iterator[str]:
    modules = [one for one in node.wiring.supplies if one.shelf == shelf.name]
    power_w = node.power_out_w(modules)
    load = "" if power_w is None else f": up to {_limited(power_w, shelf.rated_w, ' W')} out"
    feed = f", feed {shelf.feed}" if shelf.feed else ""
    rated = f", {shelf.rated_w:.0f} W" if shelf.rated_w is not None else ""
    yield f"shelf {shelf.name}{rated}{feed}"
    yield f"  {label_list(label_of(one.name) for one in modules) or 'no module'}{load}"


def _bus_lines(node: WiredNode, bus: Bus) -> Iterator[str]:
    nominal_v = node.nominal_v_of_bus(bus)
    yield f"bus {bus.name}{_bus_title(bus, nominal_v)}{_bus_margin(node, bus, nominal_v)}"
    yield from _supply_rows(node, node.wiring.on_bus(bus))
    is_reading = all(node.is_reading(one) for one in node.wiring.on_bus(bus))
    below = [] if is_reading else [[*_branch_lines(node, bus, branch)] for branch in bus.branches]
    for converter in node.wiring.converters(bus):
        home = node.wiring.bus_of(converter.name)
        below.append([f"converter {label_of(converter.name)} to bus {home.name if home is not None else '?'}"])
    below = below or [["read by the board controller" if is_reading else "no GPU, as far as is known"]]
    for place, (first, *more) in enumerate(below):
        is_last = place == len(below) - 1
        yield f"  {'└' if is_last else '├'}─ {first}"
        yield from (f"  {' ' if is_last else '│'}    {line}" for line in more)


def _bus_title(bus: Bus, nominal_v: float | None) -> str:
    is_named_so = nominal_v is not None and bus.name.startswith(f"{nominal_v:g} V")
    parts = [] if nominal_v is None or is_named_so else [f"{nominal_v:g} V"]
    parts += [] if bus.redundancy is None else [bus.redundancy.value]
    parts += [f"tied to {', '.join(bus.joins)}"] if bus.joins else []
    return f", {', '.join(parts)}" if parts else ""


def _bus_margin(node: WiredNode, bus: Bus, nominal_v: float | None) -> str:
    lows = ((one, node.values_of(one).lowest_v) for one in node.wiring.on_bus(bus))
    lowest_v = min((low_v for one, low_v in lows if low_v is not None and node.holds(one, low_v)), default=None)
    if lowest_v is None:
        return ""
    rail = None if nominal_v is None else rail_class_of(nominal_v)
    if rail is None or not rail.lowest_v > 0.0:
        return f": lowest {lowest_v:.2f} V"
    margin_v = round(lowest_v - rail.lowest_v, 2) or 0.0  # no minus before a zero
    return f": lowest {lowest_v:.2f} V, {margin_v:+.2f} V from the limit of {rail.lowest_v:.2f} V"


def _supply_rows(node: WiredNode, supplies: Sequence[WiredSupply]) -> Iterator[str]:
    head = ("supply", "feed", "rated", "V", "lowest", "A", "highest", "W", "load")
    rows = [head, *(_supply_cells(node, one) for one in supplies)]
    kept = [column for column in range(len(head)) if column == 0 or any(row[column] for row in rows[1:])]
    widths = {column: max(len(row[column]) for row in rows) for column in kept}
    for place, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in kept[1:])]
        yield f"  {'├─ ' if place else '   '}{'  '.join(cells)}".rstrip()
        if place:
            yield from _plug_lines(node, supplies[place - 1])


def _supply_cells(node: WiredNode, supply: WiredSupply) -> tuple[str, ...]:
    values, rated_w, load_w = node.values_of(supply), node.rated_w(supply), node.load_w(supply)
    load = "" if load_w is None or rated_w is None else f"{load_w / rated_w:.0%}"
    load += " over" if load_w is not None and rated_w is not None and load_w > rated_w else ""
    return (
        label_of(supply.name)[:_NAME_COLUMNS],
        supply.feed,
        _number(rated_w, ".0f", " W"),
        _number(values.voltage_v, ".2f"),
        _number(values.lowest_v, ".2f"),
        _number(values.current_a, ".1f"),
        _number(values.highest_a, ".1f"),
        "off" if node.is_off(supply) else _number(values.power_w, ".0f"),
        load,
    )


def _plug_lines(node: WiredNode, supply: WiredSupply) -> Iterator[str]:
    """Yield the way of a supply to its bus, with the load of the plug that is nearest to its rating."""
    if not (supply.plugs or supply.inlet):
        return
    way = []
    if supply.inlet is not None:
        way.append(f"in {supply.inlet.label}{_inlet_load(node, supply, supply.inlet)}")
    if supply.plugs:
        loaded = _tightest(supply.plugs, node.values_of(supply).load_a)
        way.append(f"out {' > '.join(one.label for one in supply.plugs)}{loaded}")
    joined = "; ".join(way)
    yield from (f"  │    {line}" for line in ([joined] if len(joined) <= _WAY_COLUMNS else way))


def _inlet_load(node: WiredNode, supply: WiredSupply, inlet: Plugs) -> str:
    """Return the current of a plug on the input side: that of the output power at the efficiency of a class."""
    feed = next((one for one in node.wiring.feeds if one.name == supply.feed), None)
    if feed is None or feed.nominal_v is None or not inlet.total_rating_a:
        return ""
    drawn_w = _input_w(node, supply, feed.nominal_v)
    return "" if drawn_w is None else f": about {_limited(drawn_w / feed.nominal_v, inlet.total_rating_a, ' A')}"


def _input_w(node: WiredNode, supply: WiredSupply, mains_v: float) -> float | None:
    power_w = node.load_w(supply)
    return None if power_w is None else power_w / NOT_METERED.efficiency_of(supply.name, mains_v)


def _branch_lines(node: WiredNode, bus: Bus, branch: Branch) -> Iterator[str]:
    gpus = node.gpus_at(branch)
    named = [label_list(gpu.label for gpu in gpus)] if gpus else []
    if not gpus and branch.gpus is None:
        named = ["every GPU"]
    elif not gpus and branch.gpus:
        named = [label_list(label_of(f"gpu{one}" if one.isdecimal() else one) for one in branch.gpus)]
        named = [f"{named[0]} (none of them was found)"] if node.gpus else named
    named += [branch.board[:_BOARD_COLUMNS]] if branch.board else []
    named += ["fans"] if branch.fans else []
    shared = " > ".join(one.label for one in branch.plugs)
    each = " > ".join(one.label for one in branch.plugs_each)
    through = f" through {shared}" if shared else ""
    through += f"{' and' if shared else ' through'} {each} each" if each else ""
    yield f"{', '.join(named)}{through}{_branch_load(node, bus, branch, gpus)}"
    cells = [_gpu_cell(node, bus, branch, gpu) for gpu in gpus]
    if any(gpu.id in node.values.gpus for gpu in gpus):
        width = max(len(cell) for cell in cells) + 2
        count = max(1, min(_GPUS_A_LINE, _GPU_COLUMNS // width))
        for start in range(0, len(cells), count):
            yield "".join(cell.ljust(width) for cell in cells[start : start + count]).rstrip()


def _branch_load(node: WiredNode, bus: Bus, branch: Branch, gpus: Sequence[Entity]) -> str:
    """Return the load of those plugs that all GPUs of a branch share which are nearest to their rating."""
    links = _branch_links(node, bus, branch, gpus, LinkKind.BRANCH)
    if not links:
        return ""
    name = f": {links[0].name}" if len(links) > 1 else ":"
    least = " at least" if links[0].at_least else ""
    return f"{name}{least} {_limited(links[0].load, links[0].rating, ' A')}"


def _branch_links(
    node: WiredNode, bus: Bus, branch: Branch, gpus: Sequence[Entity], kind: LinkKind
) -> tuple[LinkLoad, ...]:
    """Return the links of a kind of a branch to some GPUs, the one nearest to its rating first."""
    voltage_v = _voltage_v(node, bus)
    values = ((gpu.id, node.values.gpus.get(gpu.id, GpuValues()).load_w) for gpu in gpus)
    powers_w = {name: power_w for name, power_w in values if power_w is not None}
    if voltage_v is None:
        return ()
    alone = replace(bus, branches=(branch,))
    found = branch_loads(alone, voltage_v=voltage_v, gpus=gpus, powers_w=powers_w)
    return tuple(sorted((one for one in found if one.kind is kind), key=lambda one: -one.ratio))


def _gpu_cell(node: WiredNode, bus: Bus, branch: Branch, gpu: Entity) -> str:
    values = node.values.gpus.get(gpu.id, GpuValues())
    cell = f"{gpu.label} {_number(values.power_w, '3.0f', ' W') or '-'}"
    links = _branch_links(node, bus, branch, [gpu], LinkKind.GPU_PLUGS)
    return f"{cell} {links[0].ratio:.0%}{OVER if links[0].ratio > 1.0 else ''}" if links else cell


def _voltage_v(node: WiredNode, bus: Bus) -> float | None:
    """Return the voltage of a bus now, its nominal one where it is not measured; None where neither is known."""
    now = (node.values_of(one).voltage_v for one in node.wiring.on_bus(bus) if not node.is_off(one))
    return next((one for one in now if one is not None), node.nominal_v_of_bus(bus))


def unknown_lines(node: WiredNode) -> Iterator[str]:
    """Yield what the wiring leaves open, one line each."""
    wiring = node.wiring
    described = wiring.origin in (Origin.CONFIGURED, Origin.SIMULATED)
    unfed = wiring.unfed(node.gpus)
    if unfed:
        labels = label_list(gpu.label for gpu in unfed)
        hang = f"bus of {labels}: taken to hang on every supply that feeds a GPU"
        yield hang if wiring.supplies else f"supply of {labels}: none is measured or described"
    without = {
        "rating": [one for one in wiring.supplies if node.rated_w(one) is None and not node.is_reading(one)],
        "nominal voltage": [one for one in wiring.supplies if node.nominal_v(one) is None],
        "feed": [one for one in wiring.supplies if not (one.feed or one.from_bus)] if described else [],
        "plugs": [one for one in wiring.supplies if not one.plugs] if described else [],
    }
    for what, supplies in without.items():
        if supplies:
            yield f"{what} of {label_list(label_of(one.name) for one in supplies)}"
    if not described:
        yield "feeds, breakers, plugs and redundancy"
    elif node.supplies:
        if node.unmeasured():
            yield f"values of {label_list(label_of(one.name) for one in node.unmeasured())}: described and not measured"
        if node.undescribed():
            yield f"wiring of {label_list(one.label for one in node.undescribed())}: measured and not described"


def _tightest(plugs: Iterable[Plugs], current_a: float | None) -> str:
    rated = [one for one in plugs if one.total_rating_a]
    if current_a is None or not rated:
        return ""
    least = min(rated, key=lambda one: one.total_rating_a or 0.0)
    name = f": {least.label}" if len(rated) > 1 else ":"
    return f"{name} {_limited(current_a, least.total_rating_a, ' A')}"


def _limited(value: float, limit: float | None, unit: str) -> str:
    """Return a value with its limit where that is known, and that it is over it where it is."""
    return f"{value:.0f}{unit}" if limit is None else f"{value:.0f} of {limit:g}{unit}{OVER if value > limit else ''}"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"
