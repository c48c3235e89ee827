"""A sysfs tree in a temporary folder."""

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
