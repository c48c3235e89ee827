"""The GPU driver: the ports the node needs of it, and the adapters that fill them."""
