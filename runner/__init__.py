"""Execution contexts: sandbox, pool, protocol and one engine per language. May import handlers."""
