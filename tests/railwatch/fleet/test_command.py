"""``railwatch fleet`` refuses in one line what it cannot work with."""

from pathlib import Path

import pytest

from railwatch.cli import app as command_line


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[object, str]:
    monkeypatch.setattr("sys.argv", ["railwatch", "fleet", *words])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store: {kind: embedded}\n", "store.kind: got embedded; expected influxdb1 or influxdb2"),
        ("fleet: {every: 2500ms}\n", "whole seconds"),
        ("fleet: {feeds: {pdu-a: node1}}\n", "fleet.feeds.pdu-a"),
        ("fleet: {evry: 5s}\n", "fleet.evry"),
    ],
)
def test_a_file_that_it_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    status, err = refused(capsys, monkeypatch, "--config", str(path))
    assert status == 2
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("time", ["yesterday", "2026-03-01T18:00:00"])
def test_a_time_without_its_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    status, err = refused(capsys, monkeypatch, "--since", time)
    assert status == 2
    assert "2026-03-01T18:00:00Z" in err


def test_a_store_that_is_away_once_is_the_answer_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(f"data_dir: {tmp_path}/data\nstore: {{kind: influxdb1, url: 'http://127.0.0.1:9'}}\n")
    words = ("--config", str(path), "--once", "--since", "2026-03-01T18:00:00Z")
    status, err = refused(capsys, monkeypatch, *words)
    assert status == 1
    assert "not reached" in err
