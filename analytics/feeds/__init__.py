"""Feeds of alternating current: their meters, how they share, and what their watts show of the node behind them."""
