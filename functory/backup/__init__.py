"""Backup and restore of a data directory: its journals, its embedded store, its keys. docs/backup.md explains the use.

layout.py     what a data directory and a backup hold, and the mark of a restore that was interrupted
manifest.py   the list of a backup's content with its checksums
making.py     a consistent copy, also while daemons run
restoring.py  a data directory out of such a copy
"""
