"""Catalogue of the codes in NVIDIA's kernel-log lines: Xid (GPU) and SXid (NVSwitch), with severity and action."""

from analytics.catalogue.entries import (
    CodeExplanation,
    Gravity,
    XidEntry,
    explain_sxid,
    explain_xid,
    severity_of,
    sxid,
    sxids,
    xid,
    xids,
)

__all__ = [
    "CodeExplanation",
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
