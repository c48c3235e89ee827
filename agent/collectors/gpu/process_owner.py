"""Command and job of a process, from ``/proc``."""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.sysfs.proc_file import parse_process_stat

# Slurm names the control group of a job job_N (slurm.schedmd.com/cgroups.html); Kubernetes that of a pod pod<UID>,
# with _ for - under systemd (kubernetes.io/docs/concepts/architecture/cgroups).
_SLURM_GROUP = re.compile(r"/job_(\d+)(?:/|$)")
_POD_GROUP = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
# Docker, Podman, CRI-O and containerd name a container's group by its 64 digits, behind their own name and a dash where
# systemd keeps the groups (docs.docker.com/engine/containers/runmetrics; containers/common, pkg/cgroups).
_CONTAINER_GROUP = re.compile(r"[/-]([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:/|$)", re.MULTILINE)
# A service, or a scope that systemd-run started (systemd.unit(5), systemd-run(1)): its group holds all its processes.
# Excluded are a login session and a user's manager, which hold anything, and slurmd's own group, which holds all jobs.
_UNIT = re.compile(r"(?!user@|slurmd\.).+\.service|run-.+\.scope")
# Set by Slurm in every task of a job (sbatch(1), output environment variables).
_SLURM_VARIABLE = "SLURM_JOB_ID="
# The outermost first: a pod's containers are one job, and so is what runs in a container of a batch job.
_GROUPS = ((_SLURM_GROUP, "slurm"), (_POD_GROUP, "pod"), (_CONTAINER_GROUP, "container"))
# heuristic: part of an environment or of a list of control groups that is read; both are far smaller in practice.
_MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOwner:
    """Command and job of a process; None for what ``/proc`` does not show, as for processes outside this container.

    `job` is ``slurm:1234``, ``pod:<UID>``, ``container:<12 digits>`` or ``unit:train.service``. `start_ticks`
    distinguishes a process from a later one with the same number.
    """

    command: str | None
    job: str | None
    start_ticks: int | None


def owner_of(pid: int, proc_root: Path) -> ProcessOwner:
    """Read the owner of a process from four small files."""
    folder = proc_root / str(pid)
    stat = parse_process_stat(_read(folder / "stat").encode())
    return ProcessOwner(
        command=_read(folder / "comm").strip() or None,
        job=parse_job(_read(folder / "environ"), _read(folder / "cgroup")),
        start_ticks=None if stat is None else stat.start_ticks,
    )


def parse_job(environ: str, groups: str) -> str | None:
    """Return the job that a process belongs to, from the texts of ``environ`` and ``cgroup``; None where there is none.

    Control groups come first: they are set by the kernel, and the environment by the process itself.
    """
    for pattern, kind in _GROUPS:
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


def _read(path: Path) -> str:
    """Read a file; empty where it cannot be read: the process ended, or belongs to another user."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
