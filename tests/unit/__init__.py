"""Fast tests of one module each."""
