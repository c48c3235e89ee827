"""Whose process that is: its command and the job that it belongs to, from ``/proc``."""

import re
from dataclasses import dataclass
from pathlib import Path

# Slurm names the control group of a job job_N (slurm.schedmd.com/cgroups.html); Kubernetes that of a pod pod<UID>,
# with _ for - under systemd (kubernetes.io/docs/concepts/architecture/cgroups).
_SLURM_GROUP = re.compile(r"/job_(\d+)(?:/|$)")
_POD_GROUP = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
# Docker, Podman, CRI-O and containerd name a container's group by its 64 digits, behind their own name and a dash where
# systemd keeps the groups (docs.docker.com/engine/containers/runmetrics; containers/common, pkg/cgroups).
_CONTAINER_GROUP = re.compile(r"[/-]([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:/|$)", re.MULTILINE)
# A service, or what systemd-run started as a scope (systemd.unit(5), systemd-run(1)): all that belongs to it is in its
# group. A login and its user's manager hold anything, slurmd's own group jobs of anybody: those are no owner.
_UNIT = re.compile(r"(?!user@|slurmd\.).+\.service|run-.+\.scope")
# Set by Slurm in every task of a job (sbatch(1), output environment variables).
_SLURM_VARIABLE = "SLURM_JOB_ID="
# The outermost first: a pod's containers are one job, and so is what runs in a container of a batch job.
_GROUPS = ((_SLURM_GROUP, "slurm"), (_POD_GROUP, "pod"), (_CONTAINER_GROUP, "container"))
# heuristic: what of an environment or a list of control groups is looked at.
_MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOwner:
    """Who a process is; None for what ``/proc`` does not show, as for processes outside this container.

    `job` is ``slurm:1234``, ``pod:<UID>``, ``container:<12 digits>`` or ``unit:train.service``. `start_ticks` tells a
    process from a later one with the same number.
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
    """Return field 22 of ``/proc/PID/stat``; the command before it may hold spaces and brackets (proc(5))."""
    fields = stat.rpartition(")")[2].split()
    try:
        return int(fields[19])
    except (IndexError, ValueError):
        return None


def _job(environ: str, groups: str) -> str | None:
    for pattern, kind in _GROUPS:  # the kernel's word before the environment, which everybody sets as they like
        match = pattern.search(groups)
        if match is not None:
            return f"{kind}:{match[1].replace('_', '-')}"
    for variable in environ.split("\0"):
        if variable.startswith(_SLURM_VARIABLE) and variable.removeprefix(_SLURM_VARIABLE).isdecimal():
            return f"slurm:{variable.removeprefix(_SLURM_VARIABLE)}"
    return next((f"unit:{unit}" for line in groups.splitlines() if (unit := _unit(line)) is not None), None)


def _unit(line: str) -> str | None:
    """Return the innermost unit that a line of control groups names, None where that is no owner."""
    named = [part for part in line.split("/") if part.endswith((".service", ".scope"))]
    return named[-1] if named and _UNIT.fullmatch(named[-1]) else None


def _text(path: Path) -> str:
    """Return a file's text, nothing where it cannot be read: the process ended, or is another user's."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
