"""Trees of sysfs and /proc in a temporary folder."""

from pathlib import Path


def write(root: Path, files: dict[str, str]) -> None:
    """Write attribute files as the kernel shows them, with a newline at the end."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def two_supplies(root: Path) -> None:
    """Two INA228 with labels, and an inlet sensor."""
    for number in (0, 1):
        device = f"class/hwmon/hwmon{number}"
        write(
            root,
            {
                f"{device}/name": "ina228",
                f"{device}/in0_input": str(12_000 + number),
                f"{device}/in0_label": f"psu{number} 12V",
                f"{device}/curr1_input": str(45_500 + number),
                f"{device}/curr1_label": f"psu{number} 12V",
            },
        )
    write(root, {"class/hwmon/hwmon2/name": "jc42", "class/hwmon/hwmon2/temp1_label": "Inlet"})
    write(root, {"class/hwmon/hwmon2/temp1_input": "22250"})


def connector(root: Path, number: int, *, chip: str = "astral12vhpwr", pci: str | None = "0000:3b:00.0") -> str:
    """Monitor of six pins as its driver shows it: 12.100 to 12.105 V, 5.0 to 5.5 A; return its folder.

    That of a card sits on the I2C bus of the GPU, that of a cable on no bus.
    """
    folder = f"class/hwmon/hwmon{number}"
    pins = range(6)
    write(root, {f"{folder}/name": chip})
    write(root, {f"{folder}/in{pin}_input": str(12_100 + pin) for pin in pins})
    write(root, {f"{folder}/curr{pin + 1}_input": str(5_000 + 100 * pin) for pin in pins})
    if chip == "wireview":
        write(root, {f"{folder}/in{pin}_label": f"Pin {pin + 1}" for pin in pins})
        write(root, {f"{folder}/curr{pin + 1}_label": f"Pin {pin + 1}" for pin in pins})
        write(root, {f"{folder}/in6_label": "Average", f"{folder}/in6_input": "12102"})
        write(root, {f"{folder}/in7_label": "Vdd", f"{folder}/in7_input": "3300"})
        write(root, {f"{folder}/curr7_label": "Total", f"{folder}/curr7_input": "31500"})
        write(root, {f"{folder}/fan1_input": "75"})  # a duty in per cent
    else:
        write(root, {f"{folder}/in{pin}_label": f"12VHPWR Pin{pin + 1} Voltage" for pin in pins})
        write(root, {f"{folder}/curr{pin + 1}_label": f"12VHPWR Pin{pin + 1} Current" for pin in pins})
        write(root, {f"{folder}/update_interval": "200"})
    if pci is not None:
        device = root / f"devices/pci0000:19/0000:19:00.0/{pci}/i2c-4/4-002b"
        device.mkdir(parents=True, exist_ok=True)
        (root / folder / "device").symlink_to(device)
    return folder


def pci_device(root: Path, address: str, *, correctable: int = 0, fatal: int = 0) -> None:
    """A GPU on the bus, with AER counters as the kernel prints them."""
    device = f"bus/pci/devices/{address}"
    write(
        root,
        {
            f"{device}/vendor": "0x10de",
            f"{device}/aer_dev_correctable": f"RxErr {correctable}\nBadTLP 0\nTOTAL_ERR_COR {correctable}",
            f"{device}/aer_dev_fatal": f"Undefined 0\nDLP {fatal}\nTOTAL_ERR_FATAL {fatal}",
        },
    )


def proc_tree(root: Path) -> Path:
    """A node with two kernel threads of the driver, one of something else, and a program that calls itself nv_queue."""
    write(
        root,
        {
            "stat": "cpu  100 0 50 850 0 0 0 0 0 0\ncpu0 100 0 50 850 0 0 0 0 0 0\nintr 0",
            "loadavg": "1.50 1.00 0.50 1/800 5000",
            "meminfo": _meminfo(),
            "pressure/cpu": "some avg10=12.50 avg60=3.00 avg300=1.00 total=2500000",
            "pressure/memory": _both("some avg10=1.00", 1_000_000, "full avg10=0.50", 500_000),
            "pressure/io": _both("some avg10=0.00", 7, "full avg10=0.00", 3),
        },
    )
    thread(root, 812, "nv_queue")
    thread(root, 813, "irq/57-nvidia")
    thread(root, 814, "irq/58-s-nvidia")
    thread(root, 20, "kworker/0:1")
    thread(root, 4000, "nv_queue", parent=1, system=9_999)
    return root


def thread(
    root: Path, pid: int, name: str, *, parent: int = 2, user: int = 0, system: int = 0, start: int = 100
) -> None:
    """Write a process or kernel thread with its times in ticks."""
    times = f"{user} {system} 0 0 20 0 1 0 {start} 0 0"
    write(root, {f"{pid}/comm": name, f"{pid}/stat": f"{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {times}"})


def _meminfo() -> str:
    kib = {"MemTotal": 1000, "MemFree": 100, "MemAvailable": 400, "SwapTotal": 200, "SwapFree": 150}
    return "\n".join(f"{name + ':':<12}{value:>12} kB" for name, value in kib.items())


def _both(some: str, some_us: int, full: str, full_us: int) -> str:
    rest = "avg60=0.00 avg300=0.00"
    return f"{some} {rest} total={some_us}\n{full} {rest} total={full_us}"
