"""The words that all parts share."""
