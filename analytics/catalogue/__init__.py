"""What the codes in NVIDIA's kernel-log lines mean: Xid (GPU) and SXid (NVSwitch), with severity and what to do."""

from analytics.catalogue.entries import Gravity, XidEntry, severity_of, sxid, sxids, xid, xids
from analytics.catalogue.explanation import Explanation, explain_sxid, explain_xid

__all__ = [
    "Explanation",
    "Gravity",
    "XidEntry",
    "explain_sxid",
    "explain_xid",
    "severity_of",
    "sxid",
    "sxids",
    "xid",
    "xids",
]
