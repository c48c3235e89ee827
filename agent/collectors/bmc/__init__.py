"""Collectors and event source of the board's management controller (BMC), over IPMI or Redfish."""
