"""The daemon in one process: real journal, store and runner, driven from the inside."""
