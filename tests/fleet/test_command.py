"""``railwatch fleet`` refuses an invalid configuration in one line."""

from pathlib import Path

import pytest

from railwatch.cli import app as command_line


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[object, str]:
    monkeypatch.setattr("sys.argv", ["railwatch", "fleet", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("store: {kind: embedded}\n", "store.kind: got embedded; expected influxdb1 or influxdb2"),
        ("fleet: {every: 2500ms}\n", "whole seconds"),
        ("fleet: {feeds: {pdu-a: node1}}\n", "fleet.feeds.pdu-a"),
        ("fleet: {evry: 5s}\n", "fleet.evry"),
        ("fleet: {lateness: 10s}\n", ":1: fleet.lateness: got 10 s; expected more than sampling.rare"),
        ("fleet: {racks: {r1: [a, b], r2: [b]}}\n", "each node in one rack"),
    ],
)
def test_a_file_that_it_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    status, err = refused(capsys, monkeypatch, "--config", str(path))
    assert status == 2
    assert expected in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("time", ["yesterday", "2026-03-01T18:00:00"])
def test_a_time_without_its_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    status, err = refused(capsys, monkeypatch, "--since", time)
    assert status == 2
    assert "2026-03-01T18:00:00Z" in err


@pytest.mark.parametrize("since", [(), ("--since", "2026-03-01T18:00:00Z")])
def test_a_store_that_is_away_is_what_once_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, since: tuple[str, ...]
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"data_dir: {tmp_path}/data\nstore: {{kind: influxdb1, url: 'http://127.0.0.1:9'}}\n")
    status, err = refused(capsys, monkeypatch, "--config", str(path), "--once", *since)
    assert status == 3
    assert "not reached" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (("--since", "2999-01-01T00:00:00Z"), "a time that has passed"),
        (("--since", "2026-03-01T18:00:00Z", "--until", "2026-03-01T18:00:00Z"), "a time before --until"),
    ],
)
def test_times_that_leave_nothing_to_judge(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    times: tuple[str, ...],
    expected: str,
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"data_dir: {tmp_path}/data\nstore: {{kind: influxdb1, url: 'http://127.0.0.1:9'}}\n")
    status, err = refused(capsys, monkeypatch, "--config", str(path), "--once", *times)
    assert status == 2
    assert f"{expected}\n" in err
    assert len(err.splitlines()) == 1
