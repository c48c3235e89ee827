"""Configuration: the models, where values come from, and the references generated from them."""
