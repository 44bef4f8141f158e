"""Functory: the application on top of the journal, store, handlers, scheduler and runner packages."""

__version__ = "0.1.0"
