"""Unit tests of the store: its values, and what is particular to one back end."""
