"""What must be on the disk before somebody is told: each call that durability stands on, left out or out of order."""

from tests.mutants.mutant import Mutant

TRACED = "tests/crash/test_syscalls.py"

MUTANTS = [
    Mutant(
        "a file of the journal is not synced",
        "journal/disk.py",
        "        os.fdatasync(self._fd)",
        "        pass",
        TRACED,
    ),
    Mutant(
        "a directory of the journal is not synced",
        "journal/disk.py",
        "        sync_folder(self.directory)",
        "        pass",
        TRACED,
    ),
    Mutant(
        "a folder sync does nothing",
        "journal/durable.py",
        '    """The names in it."""\n',
        '    """The names in it."""\n    return\n',
        TRACED,
    ),
    Mutant(
        "the name of a new folder is not synced",
        "journal/durable.py",
        "            sync_folder(path.parent)",
        "            pass",
        TRACED,
    ),
    Mutant(
        "a segment is removed before the position is kept",
        "journal/backlog.py",
        """        self._cursor.save(position, sync=sync or bool(done))
        for number in done:
            name = Segment(number, 0, 0).name
            if number in self._damaged:
                self._disk.rename(name, name.replace(".journal", ".damaged"))
            else:
                self._disk.remove(name)
""",
        """        for number in done:
            name = Segment(number, 0, 0).name
            if number in self._damaged:
                self._disk.rename(name, name.replace(".journal", ".damaged"))
            else:
                self._disk.remove(name)
        self._cursor.save(position, sync=sync or bool(done))
""",
        TRACED,
    ),
    Mutant(
        "the read position is not synced",
        "journal/cursor.py",
        "        if sync:\n            self._file.sync()\n",
        "",
        TRACED,
    ),
    Mutant(
        "a new cursor is not synced",
        "journal/cursor.py",
        "            file.sync()\n            disk.sync_directory()\n            return",
        "            disk.sync_directory()\n            return",
        TRACED,
    ),
    Mutant(
        "the name of a new cursor is not synced",
        "journal/cursor.py",
        "            file.sync()\n            disk.sync_directory()\n            return",
        "            file.sync()\n            return",
        TRACED,
    ),
    Mutant(
        "lines are acknowledged without a sync",
        "journal/writer.py",
        "            segment.file.sync()\n        except",
        "            pass\n        except",
        TRACED,
    ),
    Mutant(
        "a new segment's header is not synced",
        "journal/writer.py",
        "            file.sync()\n            self._disk.sync_directory()",
        "            self._disk.sync_directory()",
        TRACED,
    ),
    Mutant(
        "a new segment's name is not synced",
        "journal/writer.py",
        "            file.sync()\n            self._disk.sync_directory()",
        "            file.sync()",
        TRACED,
    ),
    Mutant(
        "a torn end is cut before its copy is synced",
        "journal/recovery.py",
        "        copy.sync()",
        "        pass",
        TRACED,
    ),
    Mutant(
        "a torn end is cut before the name of its copy is synced",
        "journal/recovery.py",
        "    disk.rename(name, new)\n    disk.sync_directory()",
        "    disk.rename(name, new)",
        TRACED,
    ),
    Mutant(
        "a torn end is cut and that is not synced",
        "journal/recovery.py",
        "    file.truncate(end)\n    file.sync()",
        "    file.truncate(end)",
        TRACED,
    ),
    Mutant(
        "the backup's copy of the journal is not synced",
        "journal/copying.py",
        "        copy.sync()",
        "        pass",
        TRACED,
    ),
    Mutant(
        "the store's commits are not synced",
        "store/sqlite/file/connection.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        TRACED,
    ),
    Mutant(
        "the store's copy is not synced",
        "store/sqlite/file/maintenance.py",
        "        _copy_pages(source, target)\n    _sync(target)",
        "        _copy_pages(source, target)",
        TRACED,
    ),
    Mutant(
        "a copy before a migration has no synced name",
        "store/sqlite/file/maintenance.py",
        "    partial.rename(kept)\n    _sync(kept)",
        "    partial.rename(kept)",
        TRACED,
    ),
    Mutant(
        "no copy is kept before a migration",
        "store/sqlite/file/maintenance.py",
        "    partial.rename(kept)\n",
        "    partial.unlink()\n    return\n",
        TRACED,
    ),
    Mutant(
        "files of a backup are not synced",
        "functory/transfer/durable_files.py",
        "        os.fsync(file.fileno())",
        "        pass",
        TRACED,
    ),
    Mutant(
        "names in a backup are not synced",
        "functory/transfer/backup.py",
        "    sync_tree(unfinished)\n",
        "",
        TRACED,
    ),
    Mutant(
        "the name of a backup is not synced",
        "functory/transfer/backup.py",
        "    sync_folder(target.parent)",
        "    pass",
        TRACED,
    ),
    Mutant(
        "the store is copied before the journals",
        "functory/transfer/backup.py",
        """    journals = await asyncio.to_thread(_copy_journals, settings.data_dir, unfinished)
    store = None if journals_only else await _copy_store(settings.store_url, unfinished, say)
""",
        """    store = None if journals_only else await _copy_store(settings.store_url, unfinished, say)
    journals = await asyncio.to_thread(_copy_journals, settings.data_dir, unfinished)
""",
        f"tests/service/test_backup_between_steps.py {TRACED}",
    ),
    Mutant(
        "a restore's mark is not synced",
        "functory/transfer/restore.py",
        "    make_folder(stage)\n    sync_folder(data_dir)",
        "    stage.mkdir()",
        TRACED,
    ),
    Mutant(
        "a restore ends before its names are synced",
        "functory/transfer/restore.py",
        "            sync_tree(data_dir / path.name)\n    sync_folder(data_dir)\n",
        "            pass\n",
        TRACED,
    ),
    Mutant(
        "a restored store has no synced name",
        "functory/transfer/restore.py",
        "    moves.move(near, store_file)\n    sync_folder(store_file.parent)",
        "    moves.move(near, store_file)",
        TRACED,
    ),
    Mutant(
        "lines leave the journal before the store has them",
        "functory/intake/journal_reader.py",
        """        try:
            await self._store.add_jobs(to_new_jobs(new, now_ms), now_ms=now_ms, position=position)
""",
        """        await self._journal.rsync(reservation)
        try:
            await self._store.add_jobs(to_new_jobs(new, now_ms), now_ms=now_ms, position=position)
""",
        f"tests/service/test_store_away.py {TRACED}",
    ),
    Mutant(
        "a refused line is set aside without a sync",
        "journal/durable.py",
        """        file.write(content)
        file.flush()
        os.fsync(fd)
    sync_folder(path.parent)
""",
        """        file.write(content)
    sync_folder(path.parent)
""",
        TRACED,
    ),
    Mutant(
        "the journal's name in the store is not synced",
        "journal/durable.py",
        """            file.flush()
            os.fsync(fd)
""",
        "",
        TRACED,
    ),
]
