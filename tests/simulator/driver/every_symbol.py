"""Calls every symbol that nvidia-ml-py looks for, past nvidia-ml-py: a program for a process of its own.

The first argument selects the first argument of each call: ``gpu`` the handle of GPU 3 where the function takes one,
``null`` nothing anywhere, ``fault`` the handle or room for a structure, with a fault on every call; the rest are zeros.
Prints JSON: the code of each symbol, None where the library has no such symbol.
"""

import ctypes
import json
import os
import re
import sys
from pathlib import Path

import pynvml

from simulator.driver.layout import ALL_GPUS, STATE_VARIABLE
from simulator.driver.state import StateFile

SYMBOL = re.compile(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)')
NO_HANDLE = re.compile(r"nvmlDevice(GetCount|GetHandleBy|DiscoverGpus|ModifyDrain|QueryDrain|RemoveGpu)")
LEFT_OUT = {"nvmlShutdown", "nvmlInitWithFlags", "nvmlErrorString"}
LAST_GPU = 3
INJECTED = 29


def takes_handle(symbol: str) -> bool:
    device = symbol.startswith("nvmlDevice") and NO_HANDLE.match(symbol) is None
    return device or symbol.startswith(("nvmlGpmQuery", "nvmlGpmSet", "nvmlGpmSampleGet", "nvmlGpmMig"))


def main() -> None:
    library = ctypes.CDLL("libnvidia-ml.so.1")
    if library.nvmlInit_v2() != 0:
        sys.exit("the library does not start")
    handle = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    gpu = ctypes.c_void_p((handle.value or 0) + 4 * LAST_GPU)  # handles are words in a row, also of a lost GPU
    if sys.argv[1] == "fault":
        StateFile(Path(os.environ[STATE_VARIABLE]), mode="write").set_faults([("*", ALL_GPUS, INJECTED, 0)])
    codes: dict[str, int | None] = {}
    for symbol in sorted(set(SYMBOL.findall(Path(pynvml.__file__).read_text(encoding="utf-8"))) - LEFT_OUT):
        sys.stderr.write(symbol + "\n")  # the last line names what crashed
        function = getattr(library, symbol, None)
        if function is None:
            codes[symbol] = None
            continue
        room = ctypes.create_string_buffer(1 << 16) if sys.argv[1] == "fault" else None
        first = gpu if takes_handle(symbol) and sys.argv[1] != "null" else room
        codes[symbol] = function(first, *[ctypes.c_uint64(0)] * 6)
    sys.stdout.write(json.dumps(codes))


if __name__ == "__main__":
    main()
