"""UPSs against Debian's upsd with the dummy-ups driver, and against servers that send malformed responses."""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from agent.collectors.meters import factories
from agent.collectors.meters.nut import NutClient, SilentUpsError
from agent.collectors.meters.settings import UpsdSettings
from agent.collectors.meters.ups import Ups, UpsEvents, UpsFlag, changes, find_upss, parse_status
from agent.collectors.port import SourceState
from agent.collectors.registry.settings import SlowSettings
from telemetry.clock import SystemClock
from telemetry.errors import NotPermittedError, TransientError
from telemetry.records import Event, EventKind, Severity
from tests.agent.collectors.meters.upsd import HEALTHY, Upsd, upsd
from tests.agent.fakes import FakeClock
from tests.services import free_port

CLOCK = SystemClock()


def read(collector: Ups) -> dict[str, float]:
    values = np.full(collector.spec.shape, -12345.0)
    collector.read(values)
    return dict(zip(collector.spec.signals, values[0].tolist(), strict=True))


def found(server: Upsd) -> Ups:
    built = factories.ups(SlowSettings(node="n", clock=FakeClock(), upsds=(server.settings,)))
    assert isinstance(built.source, Ups), built.status
    return built.source


def events_within(source: UpsEvents, seconds: float, *, wanted: int) -> list[Event]:
    end_s = CLOCK.monotonic_s() + seconds
    events: list[Event] = []
    while len(events) < wanted and CLOCK.monotonic_s() < end_s:
        events += source.poll(0.2)
    return events


@pytest.mark.integration
def test_every_variable_is_a_signal_in_our_units() -> None:
    with upsd() as server:
        collector = found(server)
        assert collector.spec.entities[0].key == f"rack@127.0.0.1:{server.port}"
        assert read(collector) == pytest.approx(
            {
                "ups_input_voltage_v": 230.5,
                "ups_output_voltage_v": 229.9,
                "ups_load_ratio": 0.42,
                "ups_power_w": 1260.0,
                "ups_battery_ratio": 0.97,
                "ups_runtime_s": 840.0,
                "ups_status": float(UpsFlag.ON_LINE | UpsFlag.CHARGING),
            }
        )
        collector.close()


@pytest.mark.integration
def test_loss_of_ac_and_its_return_are_events_and_each_is_reported_once() -> None:
    with upsd() as server:
        source = UpsEvents([server.settings], clock=CLOCK)
        assert events_within(source, 2.5, wanted=1) == []
        server.show({**HEALTHY, "ups.status": "OB DISCHRG LB", "input.voltage": "0"})
        events = events_within(source, 60.0, wanted=2)
        assert [event.severity for event in events] == [Severity.CRITICAL, Severity.CRITICAL]
        assert "on battery: AC lost upstream" in events[1].message
        assert {event.kind for event in events} == {EventKind.POWER}
        assert {event.entity_id for event in events} == {f"supply:rack@127.0.0.1:{server.port}"}
        assert events_within(source, 2.5, wanted=1) == []
        server.show(HEALTHY)
        back = events_within(source, 60.0, wanted=2)
        assert {event.severity for event in back} == {Severity.INFO}
        assert "AC is back" in back[-1].message
        assert len({event.id for event in events + back}) == 4
        source.close()


@pytest.mark.integration
def test_a_driver_that_hangs_is_no_value_and_a_server_that_comes_back_is_read_again() -> None:
    with upsd() as server:
        collector = found(server)
        read(collector)
        server.driver.send_signal(signal.SIGSTOP)
        client = NutClient(server.settings)
        end_s = CLOCK.monotonic_s() + 60.0
        stale = ""
        while not stale and CLOCK.monotonic_s() < end_s:  # the server's MAXAGE is three seconds here
            try:
                client.variables("rack")
            except SilentUpsError as err:
                stale = str(err)
            CLOCK.sleep_until(CLOCK.monotonic_s() + 0.2)
        assert "DATA-STALE" in stale
        client.close()
        with pytest.raises(TransientError, match="DATA-STALE"):
            read(collector)
        server.driver.send_signal(signal.SIGCONT)
        server.end_server()
        with pytest.raises(TransientError, match=f"upsd at 127.0.0.1:{server.port}"):
            read(collector)
        server.start_server()
        assert read(collector)["ups_input_voltage_v"] == 230.5
        collector.close()


@pytest.mark.integration
def test_an_unknown_ups_is_an_error_of_that_ups_and_the_connection_stays_open() -> None:
    with upsd() as server:
        client = NutClient(server.settings)
        with pytest.raises(SilentUpsError, match="UNKNOWN-UPS"):
            client.variables("nobody")
        assert client.list_upss() == ("rack",)
        client.close()
        client.close()


@contextmanager
def a_server_that_sends(response: bytes) -> Iterator[UpsdSettings]:
    """Server that accepts connections, waits for a line and always sends the same response."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    if connection.recv(4096):
                        connection.sendall(response)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield UpsdSettings(port=listening.getsockname()[1], timeout_s=5.0)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60.0)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n<html>", "unexpected response 'HTTP/1.1 400 Bad Request'"),
        (b"", "connection closed by the server"),
        (b'BEGIN LIST VAR rack\nVAR rack a "1"\n', "connection closed by the server"),
        (b'BEGIN LIST VAR rack\nVAR rack a "1\nEND LIST VAR rack\n', "No closing quotation"),
        (b"x" * ((1 << 20) + 1), "line longer than 1 MiB"),
        (b"BEGIN LIST VAR rack\n" + b'VAR rack a "1"\n' * 100_000, "list longer than 1 MiB"),
        (b"ERR INVALID-ARGUMENT\n", "INVALID-ARGUMENT"),
        (b"ERR \n", "upsd at"),
    ],
)
def test_a_malformed_response_is_a_problem_with_its_reason(response: bytes, message: str) -> None:
    with a_server_that_sends(response) as settings:
        client = NutClient(settings)
        with pytest.raises(TransientError, match=message):
            client.variables("rack")
        client.close()


def test_a_server_that_denies_access_is_an_error_of_permission() -> None:
    with a_server_that_sends(b"ERR ACCESS-DENIED\n") as settings:
        client = NutClient(settings)
        with pytest.raises(NotPermittedError):
            client.variables("rack")
        client.close()


def test_what_one_ups_reports_is_not_lost_when_the_server_fails_at_the_next() -> None:
    responses = (
        b'BEGIN LIST UPS\nUPS a "x"\nUPS b "x"\nEND LIST UPS\nBEGIN LIST VAR a\nVAR a ups.status "OB"\nEND LIST VAR a\n'
    )
    with a_server_that_sends(responses) as settings:
        source = UpsEvents([settings], clock=FakeClock())
        (event,) = source.poll(0.1)
        assert "is on battery" in event.message
        source.close()


def test_a_text_or_a_power_that_no_ups_has_is_absent_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    variables = {"input.voltage": "n/a", "ups.load": "nan", "ups.status": "<html>", "battery.charge": "50"}
    variables["ups.realpower"] = "-99999999"
    lines = "".join(f'VAR rack {name} "{text}"\n' for name, text in variables.items())
    listed = f"BEGIN LIST VAR rack\n{lines}END LIST VAR rack\n".encode()
    with a_server_that_sends(b'BEGIN LIST UPS\nUPS rack "x"\nEND LIST UPS\n') as settings:
        (server,) = find_upss([settings])
    with a_server_that_sends(listed) as settings:
        collector = Ups([type(server)(settings=settings, upss=server.upss)])
        for _ in range(2):
            values = read(collector)
            collector.close()
        assert values["ups_battery_ratio"] == 0.5
        assert sum(np.isnan(value) for value in values.values()) == len(values) - 1
    assert collector.refused == 8
    assert sum(": ignoring " in record.message for record in caplog.records) == 4


def test_a_server_that_is_not_there_has_failed_and_how_to_get_it_is_stated() -> None:
    built = factories.ups(
        SlowSettings(node="n", clock=FakeClock(), upsds=(UpsdSettings(port=free_port(), timeout_s=0.5),))
    )
    assert (built.source, built.status.state) == (None, SourceState.FAILED)
    assert "upsc" in built.status.how_to_get
    assert factories.ups(SlowSettings(node="n", clock=FakeClock(), upsds=())).status.state is SourceState.MISSING


def test_a_status_becomes_flags_and_unknown_ones_are_ignored() -> None:
    assert parse_status("OB DISCHRG LB ECO") == UpsFlag.ON_BATTERY | UpsFlag.DISCHARGING | UpsFlag.LOW_BATTERY
    for nonsense in ("", "WAIT", "<html>"):
        with pytest.raises(ValueError, match=r"ups\.status"):
            parse_status(nonsense)


def test_a_calibration_uses_the_battery_on_purpose() -> None:
    calibrating = UpsFlag.ON_BATTERY | UpsFlag.CALIBRATING
    assert [severity for severity, _ in changes(UpsFlag.ON_LINE, calibrating)] == [Severity.INFO]
    assert [severity for severity, _ in changes(UpsFlag.ON_LINE, UpsFlag.ON_BATTERY)] == [Severity.CRITICAL]
    assert changes(UpsFlag.ON_LINE, UpsFlag.ON_LINE | UpsFlag.CHARGING) == ()
