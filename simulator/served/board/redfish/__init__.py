"""The controller as a Redfish service: DMTF DSP0266 (protocol) and DSP0268 (schemas)."""
