"""Rules of the house that no tool checks."""
