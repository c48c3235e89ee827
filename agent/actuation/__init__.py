"""Reversible changes to hardware: the clock cap, its journal, and the process that alone may write."""
