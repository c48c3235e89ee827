"""The golden table: figures of the field report, with the values of the simulator beside them."""
