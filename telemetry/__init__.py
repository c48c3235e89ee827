"""The shared language: signals, entities, frames and records, and how they are encoded and stored."""
