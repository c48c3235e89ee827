"""Tests of the meters."""
