from pathlib import Path

import pytest

from telemetry.entities import EntityKind
from telemetry.store.embedded import EmbeddedReader, EmbeddedStore
from telemetry.store.influx import InfluxReader
from telemetry.store.influxql import InfluxQl
from telemetry.store.port import RecordStore, Resolution, SampleStore, SeriesReader
from telemetry.store.records import RecordFile
from tests.servers import influxd
from tests.telemetry.frames_for_tests import START_NS


def look_at_nothing(reader: SeriesReader) -> None:
    found = reader.series(
        EntityKind.GPU, ["power_w"], start_ns=START_NS, stop_ns=START_NS + 1, resolution=Resolution.RAW
    )
    assert found.values.shape == (0, 0, 1)
    assert len(reader.latest(EntityKind.GPU, since_ns=START_NS)) == 0


def test_the_embedded_parts_fill_the_ports(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    records = RecordFile(tmp_path)
    as_store: SampleStore = store
    as_records: RecordStore = records
    as_store.write_raw([])
    as_records.append([])
    assert as_records.find() == ()
    reader = EmbeddedReader(tmp_path)
    look_at_nothing(reader)
    reader.close()
    records.close()
    store.close()


@pytest.mark.integration
def test_the_influx_reader_fills_the_port(tmp_path: Path) -> None:
    with influxd(tmp=tmp_path) as server:
        server.query('CREATE DATABASE "railwatch"')
        for policy in Resolution:
            server.query(f'CREATE RETENTION POLICY "{policy}" ON "railwatch" DURATION INF REPLICATION 1')
        reader = InfluxReader(InfluxQl(server.url), database="railwatch")
        look_at_nothing(reader)
        reader.close()
