"""One suite for all engines."""
