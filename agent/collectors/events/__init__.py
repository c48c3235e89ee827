"""Event sources: kernel log, driver events, tracepoints, uevents, Fabric Manager log, link state."""
