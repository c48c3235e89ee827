"""Builds the driver library with the system compiler, once per content."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from simulator.driver.layout import c_header
from telemetry.errors import EnvironmentLacksError

LIBRARY = "libnvidia-ml.so.1"
_SOURCES = Path(__file__).parent / "nvml"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = (
    "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread",
)  # fmt: skip
_BUILD_LIMIT_S = 60.0


def find_compiler() -> str | None:
    """Return the path of a C compiler, None where none is installed."""
    return next((path for name in _COMPILERS if (path := shutil.which(name))), None)


def build_driver(cache_dir: Path) -> Path:
    """Build the library unless it stands already.

    Returns
    -------
    The directory to put on ``LD_LIBRARY_PATH``; its name is the hash of everything that went in.

    Raises
    ------
    EnvironmentLacksError
        No compiler is installed, it fails, or the directory cannot be written.
    """
    compiler = find_compiler()
    if compiler is None:
        raise EnvironmentLacksError(f"no C compiler on PATH (looked for {', '.join(_COMPILERS)}); install gcc or clang")
    sources = sorted(_SOURCES.glob("*.[ch]"))
    header = c_header()
    digest = hashlib.sha256("\0".join([header, compiler, *_FLAGS]).encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = cache_dir / f"nvml-{digest.hexdigest()[:16]}"
    if not (target / LIBRARY).exists():
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            _compile(compiler, sources, header, target)
        except OSError as err:
            raise EnvironmentLacksError(f"cannot build the driver library in {cache_dir}: {err.strerror}") from err
    return target


def _compile(compiler: str, sources: list[Path], header: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        folder = Path(scratch)
        (folder / "plant_layout.h").write_text(header, encoding="utf-8")
        library = folder / LIBRARY
        units = [str(source) for source in sources if source.suffix == ".c"]
        command = [compiler, *_FLAGS, f"-Wl,-soname,{LIBRARY}", f"-I{folder}", f"-I{_SOURCES}", "-o", str(library)]
        try:
            result = subprocess.run(
                [*command, *units], capture_output=True, text=True, timeout=_BUILD_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired as err:
            raise EnvironmentLacksError(f"{compiler} did not end within {_BUILD_LIMIT_S:g} s") from err
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["no output"])[0]
            raise EnvironmentLacksError(f"{compiler} cannot build the driver library: {reason}")
        target.mkdir(exist_ok=True)
        library.replace(target / LIBRARY)  # atomic, so two builders do not disturb each other
