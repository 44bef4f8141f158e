"""The note of an import under way: of which source, and how far it has come. Commits with what it speaks of.

It lies among the journals' positions, which say the same of journals, under a name that no journal can have.
"""

import json
from typing import Final

import apsw

from store.errors import Conflict
from store.sqlite.file.writer import Tx
from store.transfers import refuse_daemon
from store.values.transfer import ImportPlace, Part

_NAME: Final = "\x01import"
READERS: Final = f"(SELECT * FROM positions WHERE reader <> char({ord(_NAME[0])}) || '{_NAME[1:]}')"
"""The positions of journals alone."""


def read_note(conn: apsw.Connection) -> tuple[str, ImportPlace] | None:
    """The source and the place of the import under way."""
    text = conn.execute("SELECT segment FROM positions WHERE reader = ?", (_NAME,)).get
    if text is None:
        return None
    source, part, cursor = json.loads(text)
    return source, ImportPlace(Part(part), cursor)


def write_note(tx: Tx, source: str, place: ImportPlace) -> None:
    text = json.dumps([source, place.part, place.cursor])
    sql = "INSERT OR REPLACE INTO positions (reader, segment, offset, line) VALUES (?, ?, 0, 0)"
    tx.conn.execute(sql, (_NAME, text))


def move_note(tx: Tx, place: ImportPlace) -> None:
    note = read_note(tx.conn)
    if note is None:
        raise Conflict("no import was begun")
    write_note(tx, note[0], place)


def remove_note(tx: Tx) -> None:
    tx.conn.execute("DELETE FROM positions WHERE reader = ?", (_NAME,))


def refuse_half_a_store(conn: apsw.Connection) -> None:
    note = read_note(conn)
    if note is not None:
        refuse_daemon(note[0])
