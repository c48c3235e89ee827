"""Plant of another hand: circuits, heat, jobs and meters from their equations.

It shares no equation, constant or random draw with `simulator` and `physics`; an import contract forbids both.
"""
