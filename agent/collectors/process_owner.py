"""Whose process that is: its command and the job that it belongs to, from ``/proc``."""

import re
from dataclasses import dataclass
from pathlib import Path

# Slurm names the control group of a job job_N (slurm.schedmd.com/cgroups.html); Kubernetes that of a pod pod<UID>,
# with _ for - under systemd (kubernetes.io/docs/concepts/architecture/cgroups).
_SLURM_GROUP = re.compile(r"/job_(\d+)(?:/|$)")
_POD_GROUP = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
# Set by Slurm in every task of a job (sbatch(1), output environment variables).
_SLURM_VARIABLE = "SLURM_JOB_ID="
# Own choice: what of an environment or a list of control groups is looked at.
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOwner:
    """Who a process is; None for what ``/proc`` does not show, as for processes outside this container.

    `job` is ``slurm:1234`` or ``pod:<UID>``. `start_ticks` tells a process from a later one with the same number.
    """

    command: str | None
    job: str | None
    start_ticks: int | None


def owner_of(pid: int, proc_root: Path) -> ProcessOwner:
    """Look a process up; reads four small files."""
    folder = proc_root / str(pid)
    stat = _text(folder / "stat")
    return ProcessOwner(
        command=_text(folder / "comm").strip() or None,
        job=_job(_text(folder / "environ"), _text(folder / "cgroup")),
        start_ticks=start_ticks_of(stat),
    )


def start_ticks_of(stat: str) -> int | None:
    """Give field 22 of ``/proc/PID/stat``; the command before it may hold spaces and brackets (proc(5))."""
    fields = stat.rpartition(")")[2].split()
    try:
        return int(fields[19])
    except (IndexError, ValueError):
        return None


def _job(environ: str, groups: str) -> str | None:
    for variable in environ.split("\0"):
        if variable.startswith(_SLURM_VARIABLE) and variable.removeprefix(_SLURM_VARIABLE).isdecimal():
            return f"slurm:{variable.removeprefix(_SLURM_VARIABLE)}"
    for pattern, kind in ((_SLURM_GROUP, "slurm"), (_POD_GROUP, "pod")):
        match = pattern.search(groups)
        if match is not None:
            return f"{kind}:{match[1].replace('_', '-')}"
    return None


def _text(path: Path) -> str:
    """Give a file's text, nothing where it cannot be read: the process ended, or is another user's."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
