"""Programs that run inside a context, one file per language.

They speak docs/runner-protocol.md and import nothing of ours.
"""
