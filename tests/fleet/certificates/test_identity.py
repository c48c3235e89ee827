"""Secrets that other users can read are refused, and an expiry is reported once a day."""

from pathlib import Path

import pytest

from fleet.building import expires_ns, token_in
from fleet.certificates.authority import Authority
from fleet.certificates.identity import (
    DAY_NS,
    WARN_DAYS,
    Expiry,
    client_context,
    private_key,
    server_context,
    valid_until_ns,
)
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.identity_names import Identity


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    authority = Authority.begin(tmp_path, SystemClock(), name="test")
    authority.issue_fleet("fleet-a", SystemClock(), days=20)
    authority.issue_token("fleet-a", ("read",), SystemClock(), days=10)
    return Identity(
        authority=tmp_path / "authority.pem",
        certificate=tmp_path / "fleet-fleet-a.pem",
        key=tmp_path / "fleet-fleet-a.key",
    )


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602])
def test_a_key_or_a_token_that_others_may_read_or_change_is_refused(identity: Identity, mode: int) -> None:
    token = identity.key.with_suffix(".token")
    for path in (identity.key, token):
        path.chmod(mode)
    for use in (server_context, client_context):
        with pytest.raises(EnvironmentLacksError, match="expected 0600"):
            use(identity)
    with pytest.raises(EnvironmentLacksError, match="expected 0600"):
        private_key(identity.key)
    with pytest.raises(EnvironmentLacksError, match="expected 0600"):
        token_in(token)
    identity.key.chmod(0o640)  # a service that runs as its own user reads what root owns by a group
    private_key(identity.key)


def test_what_ends_first_is_known_and_a_token_of_another_authority_is_none(identity: Identity, tmp_path: Path) -> None:
    now_ns = SystemClock().utc_ns()
    assert (valid_until_ns(identity) - now_ns) // DAY_NS == 19
    path = identity.key.with_suffix(".token")
    assert (expires_ns(token_in(path), identity, where=path) - now_ns) // DAY_NS == 9
    other = Authority.begin(tmp_path / "other", SystemClock(), name="other")
    other.issue_token("fleet-a", ("read",), SystemClock())
    strange = tmp_path / "other" / "fleet-fleet-a.token"
    with pytest.raises(EnvironmentLacksError, match="not a token of the authority"):
        expires_ns(token_in(strange), identity, where=strange)


def test_the_end_of_a_certificate_is_reported_once_a_day_through_its_last_month() -> None:
    end_ns = 1_000 * DAY_NS
    expiry = Expiry(until_ns=end_ns, what="the certificate of control", entity_id="node:node1")
    days = [expiry.due_warning(end_ns - round(left * DAY_NS)) for left in (WARN_DAYS + 1, 29.5, 29.4, 28.5, -0.5)]
    assert [one and one.message.partition(";")[0] for one in days] == [
        None,
        "the certificate of control expires in 29 days",
        None,
        "the certificate of control expires in 28 days",
        "the certificate of control has expired",
    ]
