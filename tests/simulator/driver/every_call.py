"""Calls every function of nvidia-ml-py once and prints what each answered: a program for a process of its own.

Arguments are chosen by the names of the parameters: the handle of GPU 0, zeros, and room for structures. Prints JSON:
the name of each function with ``"answered"``, the vendor's code, or nvidia-ml-py's own error about the arguments.
"""

import ctypes
import inspect
import json
import sys
from collections.abc import Callable

import pynvml

HANDLES = {
    "handle",
    "device",
    "device1",
    "device2",
    "handle1",
    "handle2",
    "nvmlDevice",
    "c_device",
    "dev",
    "gpuInstance",
}
# What would change the rest of the walk.
LEFT_OUT = {"nvmlShutdown", "nvmlInit", "nvmlInitWithFlags"}
# These give the caller's own structures back, or take text.
SPECIAL: dict[str, tuple[object, ...]] = {
    "nvmlDeviceGetHandleByUUID": (b"GPU-none",),
    "nvmlDeviceGetHandleBySerial": (b"none",),
    "nvmlDeviceGetHandleByPciBusId": (b"0000:00:00.0",),
    "nvmlDeviceGetFieldValues": (None, [1, 186]),
    "nvmlDeviceClearFieldValues": (None, [1, 186]),
}


def arguments_of(function: Callable[..., object], gpu: object, other: object) -> list[object]:
    name = getattr(function, "__name__", "")
    if name in SPECIAL:
        return [gpu if value is None else value for value in SPECIAL[name]]
    wanted = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    return [gpu if parameter.name in HANDLES else other for parameter in wanted]


def answer_of(name: str, gpu: object) -> object:
    """Try zeros, then room for structures."""
    function = inspect.unwrap(getattr(pynvml, name))
    output = ""
    for other in (0, ctypes.create_string_buffer(1 << 16), b""):
        try:
            function(*arguments_of(function, gpu, other))
        except pynvml.NVMLError as err:
            return err.value
        except Exception as err:  # noqa: BLE001 -- whatever nvidia-ml-py makes of such arguments
            output = f"{type(err).__name__}: {err}"
        else:
            return "answered"
    return output


def main() -> None:
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    names = [
        name
        for name, value in vars(pynvml).items()
        if name.startswith("nvml") and inspect.isfunction(value) and name not in LEFT_OUT
    ]
    answers = {}
    for name in names:
        sys.stderr.write(name + "\n")  # the last line names what crashed
        answers[name] = answer_of(name, gpu)
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
