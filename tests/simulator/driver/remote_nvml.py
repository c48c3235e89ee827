"""The unmodified nvidia-ml-py in a process of its own, which finds the simulated driver through the loader.

Calls go in as JSON lines ``[function, argument...]`` and answers come out as ``{"value": ...}`` or ``{"error": code}``.
``{"gpu": 0}`` stands for the handle that was kept under 0; functions whose answer is a handle take the name to keep it
under from ``keep``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAM = """
import ctypes, json, os, sys
import pynvml

kept = {}

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return {name: plain(item) for name, item in vars(value).items()}
    if isinstance(value, ctypes._Pointer):
        return bool(value)
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(item) for item in value]
    return value

def argument(value):
    return kept[value["kept"]] if isinstance(value, dict) else value

def system_events(timeout_ms, room=8):
    data = (pynvml.c_nvmlSystemEventData_v1_t * room)()
    version = pynvml.nvmlSystemEventSetWaitRequest_v1
    return pynvml.nvmlSystemEventSetWait(version, kept["system"], timeout_ms, data, room)

def gpm_sample(gpu, name):
    kept[name] = pynvml.nvmlGpmSampleGet(gpu, pynvml.nvmlGpmSampleAlloc())

def gpm_metrics(first, second, *ids):
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
    request.sample1, request.sample2 = kept[first], kept[second]
    for place, number in enumerate(ids):
        request.metrics[place].metricId = number
    pynvml.nvmlGpmMetricsGet(request)
    return [[metric.nvmlReturn, metric.value] for metric in request.metrics[: len(ids)]]

def fabric(gpu, version):
    info = pynvml.c_nvmlGpuFabricInfo_v3_t() if version == 3 else pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = info.version if version else 1
    pynvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    return info

def bits(words):
    return [bit for bit in range(64 * len(words)) if words[bit // 64] >> bit % 64 & 1]

def cpu_bits(gpu):
    return bits(pynvml.nvmlDeviceGetCpuAffinity(gpu, 4))

def nearest(gpu, level):
    return [pynvml.nvmlDeviceGetIndex(other) for other in pynvml.nvmlDeviceGetTopologyNearestGpus(gpu, level)]

ours = {
    function.__name__: function for function in (system_events, gpm_sample, gpm_metrics, cpu_bits, nearest, fabric)
}

for line in sys.stdin:
    call = json.loads(line)
    name, *arguments = call["call"]
    try:
        if name == "setuid":
            value = os.setuid(*arguments)
        else:
            function = ours.get(name) or getattr(pynvml, name)
            value = function(*map(argument, arguments))
    except pynvml.NVMLError as error:
        answer = {"error": error.value, "text": str(error)}
    else:
        if call.get("keep") is not None:
            kept[call["keep"]] = value
        answer = {"value": plain(value)}
    print(json.dumps(answer), flush=True)
"""


class NvmlCallError(Exception):
    """Error that nvidia-ml-py raised; `code` is the vendor's return code."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(f"{code}: {text}")


class RemoteNvml:
    """Process with the library loaded."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, name: str, *arguments: Any, keep: str | None = None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": [name, *arguments], "keep": keep}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NvmlCallError(answer["error"], answer["text"])
        return answer["value"]

    def call(self, name: str, *arguments: Any, keep: str | None = None) -> Any:
        self.send(name, *arguments, keep=keep)
        return self.receive()

    def gpu(self, index: int) -> dict[str, str]:
        """Keep the handle of a GPU and return what stands for it in calls."""
        self.call("nvmlDeviceGetHandleByIndex", index, keep=f"gpu{index}")
        return {"kept": f"gpu{index}"}

    def error_of(self, name: str, *arguments: Any) -> int:
        """Return the code that a call fails with."""
        try:
            value = self.call(name, *arguments)
        except NvmlCallError as err:
            return err.code
        raise AssertionError(f"{name} gave {value!r}")


@contextmanager
def remote_nvml(environment: dict[str, str]) -> Iterator[RemoteNvml]:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        yield RemoteNvml(process)
        assert process.stdin is not None
        process.stdin.close()


def environment_of(state: Path, library_dir: Path) -> dict[str, str]:
    return {"RAILWATCH_PLANT": str(state), "LD_LIBRARY_PATH": str(library_dir)}
