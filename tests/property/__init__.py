"""Hypothesis: formats and state machines."""
