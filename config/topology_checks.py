"""Consistency of a wiring: names, nominal voltages, and what feeds what; keys are those of `topology`."""

from collections.abc import Iterable, Iterator, Mapping

from physics.wiring import Branch, Bus, Redundancy, Wiring, pci_address
from telemetry.controller_names import rail_key
from telemetry.key_problems import KeyProblemError

_EVERY_GPU = "all"


def problems_of_wiring(wiring: Wiring, *, gpu_count: int | None = None) -> Iterator[KeyProblemError]:
    """Yield what contradicts itself; later checks are left out where names lead nowhere or to several places.

    `gpu_count` is the number of GPUs of the node, None where it is unknown.
    """
    names = [
        *_duplicate_names(wiring),
        *_shared_sensors(wiring),
        *_unknown_names(wiring),
        *_sharing_problems(wiring),
        *_shelf_problems(wiring),
    ]
    yield from names
    if names:
        return
    yield from _voltage_problems(wiring)
    yield from _redundancy_problems(wiring)
    yield from _idle_feeds(wiring)
    circle = next(_circles(wiring), None)
    if circle is not None:
        yield circle
    else:
        yield from _idle_supplies(wiring)
        yield from _gpu_problems(wiring, gpu_count)


def _duplicate_names(wiring: Wiring) -> Iterator[KeyProblemError]:
    lists = (
        ("feeds", [one.name for one in wiring.feeds]),
        ("shelves", [one.name for one in wiring.shelves]),
        ("supplies", [one.name for one in wiring.supplies]),
        ("buses", [one.name for one in wiring.buses]),
    )
    for key, names in lists:
        for place, name in enumerate(names):
            first = names.index(name)
            if first < place:
                expected = f"a name of its own: {key}[{first}] has it"
                yield KeyProblemError(f"{key}[{place}].name", f"duplicate name {name!r}", expected)


def _shared_sensors(wiring: Wiring) -> Iterator[KeyProblemError]:
    shown: dict[str, str] = {}
    for place, supply in enumerate(wiring.supplies):
        key = "name" if supply.sensors == (supply.name,) else "sensors"
        for sensor in supply.sensors:
            if shown.setdefault(sensor, supply.name) != supply.name:
                expected = f"each sensor on one supply: {shown[sensor]} has it"
                yield KeyProblemError(f"supplies[{place}].{key}", f"sensor {sensor!r} of two supplies", expected)
    of_bus: dict[str, str] = {}
    for place, bus in enumerate(wiring.buses):
        for number, sensor in enumerate(bus.sensors):
            key, expected = f"buses[{place}].sensors[{number}]", ""
            if sensor in shown:
                expected = f"a rail of the board: it shows supply {shown[sensor]}"
            elif of_bus.setdefault(rail_key(sensor), bus.name) != bus.name:
                expected = f"each rail on one bus: {of_bus[rail_key(sensor)]} has it"
            if expected:
                yield KeyProblemError(key, f"got {sensor!r}", expected)


def _unknown_names(wiring: Wiring) -> Iterator[KeyProblemError]:
    feeds, shelves = {one.name for one in wiring.feeds}, {one.name for one in wiring.shelves}
    supplies, buses = {one.name for one in wiring.supplies}, {one.name for one in wiring.buses}
    for place, shelf in enumerate(wiring.shelves):
        yield from _unknown(f"shelves[{place}].feed", [shelf.feed], feeds, "a feed")
    for place, supply in enumerate(wiring.supplies):
        yield from _unknown(f"supplies[{place}].shelf", [supply.shelf], shelves, "a shelf")
        yield from _unknown(f"supplies[{place}].from_bus", [supply.from_bus], buses, "a bus")
        if not supply.shelf:
            yield from _unknown(f"supplies[{place}].feed", [supply.feed], feeds, "a feed")
    for place, bus in enumerate(wiring.buses):
        yield from _unknown(f"buses[{place}].supplies", bus.supplies, supplies, "a supply")
        yield from _unknown(f"buses[{place}].joins", bus.joins, buses - {bus.name}, "another bus")


def _unknown(key: str, names: Iterable[str], known: set[str], kind: str) -> Iterator[KeyProblemError]:
    for name in names:
        if name and name not in known:
            expected = f"{kind} of topology: {', '.join(sorted(known))}" if known else f"{kind}: topology has none"
            yield KeyProblemError(key, f"unknown name {name!r}", expected)


def _sharing_problems(wiring: Wiring) -> Iterator[KeyProblemError]:
    home: dict[str, str] = {}
    for place, bus in enumerate(wiring.buses):
        for name in bus.supplies:
            if name in home:
                found = f"{name} twice" if home[name] == bus.name else f"{name} is on {home[name]} and on {bus.name}"
                yield KeyProblemError(f"buses[{place}].supplies", found, "each supply once, on one bus")
            home.setdefault(name, bus.name)
    for place, supply in enumerate(wiring.supplies):
        if supply.from_bus and (supply.feed or supply.shelf):
            found = f"both from_bus and {'shelf' if supply.shelf else 'feed'}"
            yield KeyProblemError(
                f"supplies[{place}].from_bus", found, "one of them: a converter draws from a bus alone"
            )


def _shelf_problems(wiring: Wiring) -> Iterator[KeyProblemError]:
    """Yield shelves that hold nothing or have the name of a supply, and modules on another feed than their shelf."""
    sensors = {sensor for supply in wiring.supplies for sensor in (supply.name, *supply.sensors)}
    feeds = {shelf.name: shelf.feed for shelf in wiring.shelves}
    for place, shelf in enumerate(wiring.shelves):
        if shelf.name in sensors:
            expected = "a name of its own: a supply or a sensor has it"
            yield KeyProblemError(f"shelves[{place}].name", f"duplicate name {shelf.name!r}", expected)
        elif not any(supply.shelf == shelf.name for supply in wiring.supplies):
            expected = f"a supply with shelf: {shelf.name}"
            yield KeyProblemError(f"shelves[{place}].name", f"{shelf.name} holds no supply", expected)
    for place, supply in enumerate(wiring.supplies):
        feed = feeds.get(supply.shelf, "")
        if feed and supply.feed != feed:
            expected = f"{feed}, the feed of its shelf {supply.shelf}, or none"
            yield KeyProblemError(f"supplies[{place}].feed", f"got {supply.feed}", expected)


def _voltage_problems(wiring: Wiring) -> Iterator[KeyProblemError]:
    for place, supply in enumerate(wiring.supplies):
        bus = wiring.bus_of(supply.name)
        if bus is not None and supply.nominal_v is not None and supply.nominal_v != bus.nominal_v:
            expected = f"{bus.nominal_v:g} V, the nominal voltage of its bus {bus.name}"
            yield KeyProblemError(f"supplies[{place}].nominal_v", f"got {supply.nominal_v:g} V", expected)
    for place, bus in enumerate(wiring.buses):
        for other in wiring.buses:
            known = bus.nominal_v is not None and other.nominal_v is not None
            if other.name in bus.joins and known and other.nominal_v != bus.nominal_v:
                found = f"joins {other.name} of {other.nominal_v:g} V to {bus.name} of {bus.nominal_v:g} V"
                yield KeyProblemError(f"buses[{place}].joins", found, "buses of one nominal voltage")


def _redundancy_problems(wiring: Wiring) -> Iterator[KeyProblemError]:
    for place, bus in enumerate(wiring.buses):
        if bus.redundancy is None:
            continue
        count, key = len(bus.supplies), f"buses[{place}].redundancy"
        found = f"{bus.redundancy.value} with {count} {'supply' if count == 1 else 'supplies'}"
        if bus.redundancy is Redundancy.N_PLUS_N and count % 2:
            yield KeyProblemError(key, found, "an even number of supplies: half of them may be lost")
        elif bus.redundancy.spare(count) >= count:
            yield KeyProblemError(key, found, f"{bus.redundancy.spare(count) + 1} supplies or more")
        elif bus.redundancy is Redundancy.N_PLUS_N:
            yield from _shared_feed(wiring, bus, key)


def _shared_feed(wiring: Wiring, bus: Bus, key: str) -> Iterator[KeyProblemError]:
    """Yield the feed that more than half of the supplies of an N+N bus hang on: its loss leaves too few."""
    of_shelf = {shelf.name: shelf.feed for shelf in wiring.shelves}
    on_feed: dict[str, list[str]] = {}
    for supply in wiring.on_bus(bus):
        feed = supply.feed or of_shelf.get(supply.shelf, "")
        if feed:
            on_feed.setdefault(feed, []).append(supply.name)
    for feed, names in on_feed.items():
        if len(names) > len(bus.supplies) // 2:
            found = f"N+N with {', '.join(names)} on feed {feed}"
            yield KeyProblemError(key, found, f"at most {len(bus.supplies) // 2} of {len(bus.supplies)} on one feed")


def _idle_feeds(wiring: Wiring) -> Iterator[KeyProblemError]:
    used = {one.feed for one in wiring.shelves} | {one.feed for one in wiring.supplies}
    for place, feed in enumerate(wiring.feeds):
        if feed.name not in used:
            expected = f"a supply or shelf with feed: {feed.name}"
            yield KeyProblemError(f"feeds[{place}].name", f"{feed.name} feeds nothing", expected)


def _circles(wiring: Wiring) -> Iterator[KeyProblemError]:
    """Yield each converter whose bus leads back to the bus that it draws from."""
    for place, supply in enumerate(wiring.supplies):
        bus = wiring.bus_of(supply.name)
        if supply.from_bus and bus is not None and any(below.name == supply.from_bus for below in wiring.below(bus)):
            found = f"{supply.name} feeds {bus.name}, which feeds {supply.from_bus}, which feeds {supply.name}"
            yield KeyProblemError(f"supplies[{place}].from_bus", found, "a bus that this converter does not feed")


def _idle_supplies(wiring: Wiring) -> Iterator[KeyProblemError]:
    for place, supply in enumerate(wiring.supplies):
        if wiring.bus_of(supply.name) is None:
            expected = "its name in the supplies of one bus"
            yield KeyProblemError(f"supplies[{place}].name", f"{supply.name} feeds nothing", expected)
    for place, bus in enumerate(wiring.buses):
        if not any(reached.branches for reached in wiring.at_and_below(bus)):
            found = f"{', '.join(bus.supplies)} {'feed' if len(bus.supplies) > 1 else 'feeds'} nothing"
            yield KeyProblemError(f"buses[{place}].branches", found, "a branch to GPUs, a board or fans")


def _gpu_problems(wiring: Wiring, gpu_count: int | None) -> Iterator[KeyProblemError]:
    repeated = [*_repeated_gpus(wiring)]
    yield from repeated
    if repeated:
        return
    groups = _joined_groups(wiring)
    fed: dict[str, Bus] = {}
    for place, bus in enumerate(wiring.buses):
        for number, branch in enumerate(bus.branches):
            for gpu in references_of(branch):
                other = _conflicting(gpu, bus, fed, groups)
                if other is not None:
                    found = f"{_gpu_label(gpu)} is on {other.name} and on {bus.name}, which do not join"
                    expected = "each GPU on one bus, or joins between the two"
                    yield KeyProblemError(f"buses[{place}].branches[{number}].gpus", found, expected)
                fed.setdefault(gpu, bus)
    if wiring.buses and _EVERY_GPU not in fed:
        yield from _unfed_gpus(set(fed), gpu_count)


def _repeated_gpus(wiring: Wiring) -> Iterator[KeyProblemError]:
    """Yield the GPUs that a bus feeds twice: several plugs of one GPU are one branch."""
    expected = "each GPU once on a bus: several plugs of a GPU are plugs_each with a count"
    for place, bus in enumerate(wiring.buses):
        first: dict[str, int] = {}
        for number, branch in enumerate(bus.branches):
            for gpu in references_of(branch):
                others = (
                    [*first.values()]
                    if gpu == _EVERY_GPU
                    else [first[one] for one in (gpu, _EVERY_GPU) if one in first]
                )
                if others:
                    found = f"{_gpu_label(gpu)} twice" + (
                        f", branches[{others[0]}] has it" if others[0] < number else ""
                    )
                    yield KeyProblemError(f"buses[{place}].branches[{number}].gpus", found, expected)
                first.setdefault(gpu, number)


def _conflicting(gpu: str, bus: Bus, fed: Mapping[str, Bus], groups: Mapping[str, str]) -> Bus | None:
    """Return a bus that feeds the same GPU and does not join this one."""
    others = [*fed.values()] if gpu == _EVERY_GPU else [fed.get(gpu), fed.get(_EVERY_GPU)]
    return next((one for one in others if one is not None and groups[one.name] != groups[bus.name]), None)


def _unfed_gpus(fed: set[str], gpu_count: int | None) -> Iterator[KeyProblemError]:
    """Yield the GPUs that no bus feeds; where all are named by index, those below the highest one exist as well."""
    numbers = [_index(gpu) for gpu in fed]
    indices = {number for number in numbers if number is not None}
    highest = max(indices, default=-1)
    if gpu_count is not None and highest >= gpu_count:
        found = f"got {gpu_count}, and buses feed GPU {highest}"
        yield KeyProblemError("gpu_count", found, f"{highest + 1} or more, or indices from 0 to {gpu_count - 1}")
    elif len(indices) < len(fed):
        if gpu_count is not None and len(fed) < gpu_count:
            found = f"got {gpu_count}, and buses feed {len(fed)} GPUs"
            yield KeyProblemError("gpu_count", found, "each GPU in the gpus of a branch")
    elif missing := sorted({*range(highest + 1 if gpu_count is None else gpu_count)} - indices):
        found = f"no bus feeds GPU{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        yield KeyProblemError("buses", found, "each GPU in the gpus of a branch")


def references_of(branch: Branch) -> tuple[str, ...]:
    """Return the GPUs of a branch in one form, ``all`` for every GPU."""
    return (_EVERY_GPU,) if branch.gpus is None else tuple(normal_reference(one) for one in branch.gpus)


def normal_reference(reference: str) -> str:
    """Return a reference to a GPU in one form: ``gpu2`` for an index or a name, a UUID or a PCI address."""
    text = reference.casefold()
    return f"gpu{int(text)}" if text.isdecimal() else pci_address(text)


def _index(gpu: str) -> int | None:
    number = gpu.removeprefix("gpu")
    return int(number) if number.isdecimal() else None


def _gpu_label(gpu: str) -> str:
    number = _index(gpu)
    return "every GPU" if gpu == _EVERY_GPU else f"GPU {gpu}" if number is None else f"GPU {number}"


def _joined_groups(wiring: Wiring) -> dict[str, str]:
    """Return a group for each bus, the same for buses that join: tied, or behind converters of one bus."""
    group = {bus.name: bus.name for bus in wiring.buses}
    pairs = [(bus.name, other) for bus in wiring.buses for other in bus.joins]
    pairs += [(supply.from_bus, bus.name) for bus in wiring.buses for supply in wiring.on_bus(bus) if supply.from_bus]
    for one, other in pairs:
        group = {name: group[one] if own == group[other] else own for name, own in group.items()}
    return group
