"""Command and job of a process, from a /proc that the test writes and from texts alone."""

from pathlib import Path

import pytest

from agent.collectors.gpu.process_owner import owner_of, parse_job

STAT = "4000 (python3 (main) x) S 1 4000 4000 0 -1 4194304 0 0 0 0 5 6 0 0 20 0 40 0 {start} 1000 100"
POD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice/cri"
DIGITS = "0123456789ab" + 52 * "c"
PLAIN_POD = "0::/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/6a5b"


def write(root: Path, pid: int, *, environ: bytes = b"", cgroup: str = "0::/user.slice\n", start: int = 77) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text("python3\n")
    (folder / "environ").write_bytes(environ)
    (folder / "cgroup").write_text(cgroup)
    (folder / "stat").write_text(STAT.format(start=start))


def test_the_job_is_read_from_the_environment(tmp_path: Path) -> None:
    write(tmp_path, 4000, environ=b"HOME=/root\0SLURM_JOB_ID=1234\0SLURM_PROCID=3\0")
    owner = owner_of(4000, tmp_path)
    assert (owner.command, owner.job, owner.start_ticks) == ("python3", "slurm:1234", 77)


def test_a_process_cannot_claim_another_job_than_that_of_its_control_group(tmp_path: Path) -> None:
    write(tmp_path, 4000, environ=b"SLURM_JOB_ID=1234\0", cgroup="0::/system.slice/slurmstepd.scope/job_88/step_0\n")
    assert owner_of(4000, tmp_path).job == "slurm:88"


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_88/step_0/user/task_0\n", "slurm:88"),
        ("12:devices:/slurm/uid_1000/job_88/step_batch\n", "slurm:88"),
        (POD, "pod:12345678-1234-1234-1234-123456789abc"),
        (PLAIN_POD, "pod:12345678-1234-1234-1234-123456789abc"),
        (f"{POD}i-containerd-{64 * 'a'}.scope", "pod:12345678-1234-1234-1234-123456789abc"),
        (f"0::/system.slice/docker-{DIGITS}.scope\n", "container:0123456789ab"),
        (f"9:devices:/docker/{DIGITS}\n0::/docker/{DIGITS}\n", "container:0123456789ab"),
        (f"0::/machine.slice/libpod-{DIGITS}.scope/container\n", "container:0123456789ab"),
        ("0::/system.slice/train.service\n", "unit:train.service"),
        ("1:name=systemd:/system.slice/vllm@1.service/workers\n0::/\n", "unit:vllm@1.service"),
        ("0::/system.slice/run-u12.scope\n", "unit:run-u12.scope"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service\n", "unit:train.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope\n", None),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service\n", None),
        ("0::/system.slice/slurmd.service\n", None),
        ("0::/user.slice/user-1000.slice\n", None),
        ("0::/\n", None),
    ],
)
def test_without_a_readable_environment_the_job_is_that_of_the_control_group(
    tmp_path: Path, cgroup: str, job: str | None
) -> None:
    write(tmp_path, 4000, cgroup=cgroup)
    (tmp_path / "4000/environ").unlink()
    assert owner_of(4000, tmp_path).job == job


def test_a_job_id_that_is_no_number_is_no_job(tmp_path: Path) -> None:
    write(tmp_path, 4000, environ=b"SLURM_JOB_ID=<html>\0\xff\xfe\0")
    assert owner_of(4000, tmp_path).job is None


def test_a_process_that_is_not_visible_has_no_owner(tmp_path: Path) -> None:
    owner = owner_of(4000, tmp_path)
    assert (owner.command, owner.job, owner.start_ticks) == (None, None, None)


def test_a_control_group_of_the_kernel_overrides_the_environment() -> None:
    environ = "HOME=/root\0SLURM_JOB_ID=1234\0"
    assert parse_job(environ, "0::/user.slice\n") == "slurm:1234"
    assert parse_job(environ, "0::/system.slice/slurmstepd.scope/job_88/step_0\n") == "slurm:88"
    assert parse_job("", "") is None
