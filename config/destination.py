"""The configured store server, as a destination of the uplink and as a store to read from.

The clients of the servers are imported only if one is configured: they cost memory and time at start.
"""

from config.fleet import FleetStore
from config.store import Store, StoreKind
from telemetry.rollup import Resolution
from telemetry.store.servers import ServerStore
from telemetry.uplink.port import Destination


def destination_of(store: Store) -> Destination:
    """Return the server of the section `store`."""
    if store.kind is StoreKind.INFLUXDB1:
        from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings  # noqa: PLC0415 -- see above

        return InfluxV1(
            InfluxV1Settings(
                url=store.url or "",
                database=store.database,
                username=store.username,
                password=store.password,
                raw_s=int(store.raw_retention),
                rollup_s=int(store.rollup_retention),
            )
        )
    from telemetry.uplink.influx_v2 import InfluxV2, InfluxV2Settings  # noqa: PLC0415 -- see above

    return InfluxV2(
        InfluxV2Settings(
            url=store.url or "",
            org=store.org,
            token=store.token or "",
            raw_bucket=store.bucket,
            rollup_bucket=f"{store.bucket}-rollup",
            basic_auth=store.basic_auth,
        )
    )


def server_store_of(store: Store, reads: FleetStore, *, timeout_s: float) -> ServerStore:
    """Return the server of the section `store` for reading."""
    url = store.url or ""
    if reads is FleetStore.VICTORIAMETRICS:
        from telemetry.store.victoria import VictoriaServer  # noqa: PLC0415 -- see above

        basic = None if store.username is None else f"{store.username}:{store.password or ''}"
        if store.kind is StoreKind.INFLUXDB2:
            basic = store.token if store.basic_auth else None
        return VictoriaServer(url, basic_auth=basic, timeout_s=timeout_s)
    from telemetry.store.influxql import InfluxQl, InfluxServer  # noqa: PLC0415 -- see above

    if store.kind is StoreKind.INFLUXDB2:
        # A 2.x server shows InfluxQL each bucket as a database of its name with this one retention policy.
        buckets = {Resolution.RAW: store.bucket, Resolution.ROLLUP: f"{store.bucket}-rollup"}
        ql = InfluxQl(url, token=store.token, timeout_s=timeout_s)
        return InfluxServer(ql, {resolution: (bucket, "autogen") for resolution, bucket in buckets.items()})
    ql = InfluxQl(url, username=store.username, password=store.password, timeout_s=timeout_s)
    return InfluxServer(ql, {resolution: (store.database, str(resolution)) for resolution in Resolution})
