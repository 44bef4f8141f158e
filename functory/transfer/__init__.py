"""Whole data directories and stores on the move. docs/backup.md explains the use.

backup_layout.py  what a data directory and a backup hold, and the mark of a restore that was interrupted
manifest.py       the list of a backup's content with its checksums
backup.py         a consistent copy, also while daemons run
restore.py        a data directory out of such a copy
moves.py          renames that can be undone, and who uses a store
durable_files.py  writing and copying files so that they survive a power cut
migrate.py        from one store to another
"""
