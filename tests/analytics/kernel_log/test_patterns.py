"""Every pattern has a line that it is for; a pattern without one fails here."""

from analytics.kernel_log.parser import PATTERNS

_SAMPLES = {
    "xid": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "xid_without_address": "NVRM: Xid: 13, 0000 02005600",
    "xid_of_guest": "vmiop_log: (0x0): XID 43 detected on physical_chid:0x1c",
    "sxid": "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "sxid_of_fabric_manager": "detected NVSwitch non-fatal error 12028 on fid 0",
    "fallen_off_the_bus": "NVRM: GPU at 0000:01:00.0 has fallen off the bus.",
    "first_of_three": "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "adapter_failed": "NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x24:0x72:1568)",
    "start_failed": "NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 5",
    "pmu_halted": "NVRM: GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.",
    "hardware_error": "{1}[Hardware Error]:   section_type: PCIe error",
    "record_begins": "Hardware error from APEI Generic Hardware Error Source: 5",
    "record_severity": "event severity: recoverable",
    "record_section": "section_type: PCIe error",
    "record_device": "device_id: 0000:04:00.0",
    "record_status": "aer_uncor_status: 0x00100000, aer_uncor_mask: 0x00010000",
    "record_register": "TLP Header: 40000001 0000030f 90028090 00000000",
    "message_received": "Correctable error message received from 0000:02:00.0",
    "bus_error": "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "aer_status": "aer_status: 0x00200000, aer_mask: 0x00100020",
    "containment": "containment event, status:0x1f01 source:0x0000",
    "status_mask": "device [8086:6f08] error status/mask=00001000/00002000",
    "layer": "aer_layer=Transaction Layer, aer_agent=Receiver ID",
    "status_bit": "[12] Timeout",
    "uncorrectable_severity": "aer_uncor_severity: 0x00463010",
    "tlp_header": "TLP Header: 34000000 00000052 00000000 00000000",
    "first_agent": "Error of this Agent is reported first",
    "no_device": "can't find device of ID00e5",
    "no_driver_support": "can't recover (no error_detected callback)",
    "link_reset": "Root Port link has been reset (0)",
    "recovery": "device recovery failed",
    "broadcast": "broadcast error_detected message",
    "service_itself": "AER: no pci_dev for 0000:00:1c.5",
    "uuid_of_gpu": "NVRM: GPU at PCI:0000:3b:00: GPU-1f2e3d4c-0a1b-4c5d-8e9f-00112233aabb",
}


def test_every_pattern_has_a_sample_and_matches_it() -> None:
    assert set(_SAMPLES) == set(PATTERNS)
    for name, pattern in PATTERNS.items():
        assert pattern.search(_SAMPLES[name]), name
