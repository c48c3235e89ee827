"""A node as the world sees it: files, logs, controllers and services that other programs read."""
