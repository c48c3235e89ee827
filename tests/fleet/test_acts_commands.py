"""Commands of operators reach a fleet service; a wrong one is reported in one line."""

from pathlib import Path

import pytest

from fleet.certificates.identity import authority_key
from fleet.certificates.tokens import read_token
from fleet.ledger_file import CommandReader, LedgerFile
from railwatch.cli import app as command_line
from rules.fleet.memory import FleetMemory
from rules.limits.node import Breaker
from telemetry.clock import SystemClock
from telemetry.commands import CommandVerb


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[object, str, str]:
    monkeypatch.setattr("sys.argv", ["railwatch", "fleet", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    printed = capsys.readouterr()
    return ended.value.code, printed.out, printed.err


def with_breaker(folder: Path, *, tripped: bool = True) -> LedgerFile:
    ledger = LedgerFile(folder, SystemClock())
    memory = FleetMemory.begin(1)
    memory.ledger.breaker = Breaker(tripped_ns=1, reason="too many") if tripped else None
    ledger.save(memory.to_json())
    return ledger


def test_a_reset_is_written_down_with_who_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_breaker(tmp_path)
    status, out, _ = run(capsys, monkeypatch, "status", "--data-dir", str(tmp_path), "--json")
    assert status == 1
    assert '"breaker":"too many"' in out
    status, _, err = run(capsys, monkeypatch, "reset-breaker", "--data-dir", str(tmp_path), "--reason", "PDU is back")
    assert (status or 0, err) == (0, "")
    (command,) = CommandReader(tmp_path, ()).read()
    assert command.verb is CommandVerb.RESET_BREAKER
    assert command.why == "PDU is back"
    assert command.who


def test_a_breaker_that_is_whole_is_not_reset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_breaker(tmp_path, tripped=False)
    status, _, err = run(capsys, monkeypatch, "reset-breaker", "--data-dir", str(tmp_path), "--reason", "why not")
    assert (status, err) == (1, "the breaker is not tripped\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("reset-breaker", "--reason", " "), (2, "expected the reason")),
        (("approve", "d-1", "--reason", "go"), (1, "no such pending decision")),
        (("rehearse", "flood"), (2, "expected pdu-sag")),
        (("ca", "issue", "node", "a/b", "--dir", "x"), (2, "expected letters")),
        (("rehearse", "pdu-sag", "--nodes", "1"), (2, "expected at least 2")),
        (("ca", "token", "f", "--scope", "all", "--dir", "x"), (2, "expected some of read")),
        (("ca", "token", "f", "--scope", "act:drain", "--dir", "x"), (2, "got act:drain; expected some of read")),
        (("ca", "issue", "fleet", "f", "--dir", "nowhere"), (3, "no authority")),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    expected: tuple[int, str],
) -> None:
    with_breaker(tmp_path)
    folder = () if arguments[0] in ("ca", "rehearse") else ("--data-dir", str(tmp_path))
    got, _, err = run(capsys, monkeypatch, *arguments, *folder)
    assert got == expected[0]
    assert expected[1] in err
    assert len(err.splitlines()) == 1


def test_an_authority_makes_certificates_and_tokens_and_is_not_made_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ("--dir", str(tmp_path / "ca"))
    assert run(capsys, monkeypatch, "ca", "init", *folder)[0] in (0, None)
    assert run(capsys, monkeypatch, "ca", "issue", "node", "node7", "--address", "10.0.0.7", *folder)[0] in (0, None)
    status, _, err = run(capsys, monkeypatch, "ca", "token", "fleet-a", "--scope", "read", *folder)
    assert (status, len(err.splitlines())) == (2, 1)  # no service could use it
    assert "expected a service with a certificate" in err
    assert not (tmp_path / "ca" / "fleet-fleet-a.token").exists()
    assert run(capsys, monkeypatch, "ca", "issue", "fleet", "fleet-a", *folder)[0] in (0, None)
    assert run(capsys, monkeypatch, "ca", "token", "fleet-a", "--scope", "read", *folder)[0] in (0, None)
    token = read_token(
        (tmp_path / "ca" / "fleet-fleet-a.token").read_text().strip(), authority_key(tmp_path / "ca" / "authority.pem")
    )
    assert (token.fleet, token.scopes) == ("fleet-a", ("read",))
    for name in ("authority.key", "node-node7.key", "fleet-fleet-a.token"):
        assert (tmp_path / "ca" / name).stat().st_mode & 0o077 == 0
    status, _, err = run(capsys, monkeypatch, "ca", "init", *folder)
    assert status == 2
    assert "has an authority already" in err


def test_an_existing_key_is_replaced_only_with_renew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ("--dir", str(tmp_path))
    assert run(capsys, monkeypatch, "ca", "init", *folder)[0] in (0, None)
    for kind in ("node", "fleet"):
        issue, key = ("ca", "issue", kind, "a", *folder), tmp_path / f"{kind}-a.key"
        assert run(capsys, monkeypatch, *issue)[0] in (0, None)
        first = key.read_bytes()
        status, _, err = run(capsys, monkeypatch, *issue)
        assert (status, len(err.splitlines()), key.read_bytes()) == (2, 1, first)
        assert "--renew replaces it" in err
        assert run(capsys, monkeypatch, *issue, "--renew")[0] in (0, None)
        assert key.read_bytes() != first


def test_a_term_is_above_every_one_before(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path, SystemClock())
    first = ledger.begin_term()
    assert ledger.begin_term() > first >= 1_700_000_000


def test_what_a_service_states_is_shown_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = FleetMemory.begin(1)
    memory.ledger.breaker = Breaker(tripped_ns=1, reason="odd [/red] words")
    LedgerFile(tmp_path, SystemClock()).save(memory.to_json())
    status, out, err = run(capsys, monkeypatch, "status", "--data-dir", str(tmp_path))
    assert (status, err) == (1, "")
    assert "odd [/red] words" in out


def test_a_memory_that_makes_no_sense_is_put_aside_and_nothing_begins_until_a_person_has_looked(tmp_path: Path) -> None:
    path = tmp_path / "fleet.actions.json"
    path.write_text("{}")
    ledger = LedgerFile(tmp_path, SystemClock())
    memory = ledger.load()
    assert memory.ledger.breaker is not None
    assert str(path.with_suffix(".bad")) in memory.ledger.breaker.reason
    assert path.with_suffix(".bad").read_text() == "{}"
    again = ledger.load()  # also after a restart
    assert again.ledger.breaker == memory.ledger.breaker
    path.unlink()
    assert ledger.load().ledger.breaker is None  # a first start is another matter
