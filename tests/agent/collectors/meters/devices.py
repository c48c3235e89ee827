"""Object identifiers and values of PDUs of four vendors."""

APC = "1.3.6.1.4.1.318.1.1.26"
# 2.8 A at 228 V on the phase, 0.57 kW; one metered outlet; a second phase current that the model does not measure.
APC_PDU: dict[str, int | str] = {
    f"{APC}.4.3.1.5.1": 57,
    f"{APC}.4.3.1.9.1": 4821,
    f"{APC}.6.3.1.5.1": 28,
    f"{APC}.6.3.1.6.1": 228,
    f"{APC}.6.3.1.7.1": 57,
    f"{APC}.9.4.3.1.3.1": "gpu-node-7",
    f"{APC}.9.4.3.1.6.1": 26,
    f"{APC}.9.4.3.1.7.1": 590,
    f"{APC}.9.4.3.1.11.1": -1,
}
EATON = "1.3.6.1.4.1.534.6.6.7"
EATON_PDU: dict[str, int | str] = {
    f"{EATON}.3.1.1.3.0.1": 499,
    f"{EATON}.3.2.1.3.0.1.1": 230123,
    f"{EATON}.3.3.1.4.0.1.1": 8456,
    f"{EATON}.3.4.1.4.0.1.1": 1890,
    f"{EATON}.3.4.1.5.0.1.1": 7200,
    f"{EATON}.6.1.1.3.0.3": "Outlet A3",
    f"{EATON}.6.5.1.3.0.3": 410,
}
RARITAN = "1.3.6.1.4.1.13742.6"
# PDU 1, inlet 1: current with three digits, voltage, power, energy in Wh, frequency with one digit; power unavailable.
RARITAN_PDU: dict[str, int | str] = {
    f"{RARITAN}.5.2.3.1.4.1.1.1": 10250,
    f"{RARITAN}.3.3.4.1.7.1.1.1": 3,
    f"{RARITAN}.5.2.3.1.3.1.1.1": 4,
    f"{RARITAN}.5.2.3.1.4.1.1.4": 231,
    f"{RARITAN}.3.3.4.1.7.1.1.4": 0,
    f"{RARITAN}.5.2.3.1.3.1.1.4": 4,
    f"{RARITAN}.5.2.3.1.4.1.1.5": 0,
    f"{RARITAN}.3.3.4.1.7.1.1.5": 0,
    f"{RARITAN}.5.2.3.1.3.1.1.5": -1,
    f"{RARITAN}.5.2.3.1.4.1.1.8": 5000,
    f"{RARITAN}.3.3.4.1.7.1.1.8": 0,
    f"{RARITAN}.5.2.3.1.4.1.1.23": 501,
    f"{RARITAN}.3.3.4.1.7.1.1.23": 1,
    f"{RARITAN}.3.3.3.1.3.1.1": "Feed A",
}
ENTITY = "1.3.6.1.2.1.99.1.1.1"
# A voltage in millivolts with no digit, a power in watts with one, and a temperature that is none of ours.
ENTITY_PDU: dict[str, int | str] = {
    f"{ENTITY}.1.5": 3,
    f"{ENTITY}.2.5": 8,
    f"{ENTITY}.3.5": 0,
    f"{ENTITY}.4.5": 229500,
    f"{ENTITY}.5.5": 1,
    f"{ENTITY}.1.6": 6,
    f"{ENTITY}.2.6": 9,
    f"{ENTITY}.3.6": 1,
    f"{ENTITY}.4.6": 12345,
    f"{ENTITY}.5.6": 2,
    f"{ENTITY}.1.7": 8,
    f"{ENTITY}.4.7": 25,
    "1.3.6.1.2.1.47.1.1.1.1.7.5": "Line 1",
}
