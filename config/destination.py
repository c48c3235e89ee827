"""The configured store server as a destination of the uplink.

The clients of the servers are imported only if one is configured: they cost memory and time at start.
"""

from config.models import Store, StoreKind
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
