"""The web layer's pure parts."""
