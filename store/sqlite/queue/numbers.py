"""Numbers of jobs within their tenant. The number is in the job's row, so it goes with the job."""

from collections.abc import Sequence
from typing import Final

import apsw

from store.names import number_key, number_of
from store.sqlite.file.writer import Tx

_FIND: Final = "SELECT j.number FROM jobs j JOIN types t ON t.type = j.type WHERE j.id = ? AND t.tenant = ?"
_TAKE: Final = (
    "INSERT INTO numbers (tenant, last) VALUES (?1, ?2)"
    " ON CONFLICT (tenant) DO UPDATE SET last = last + ?2 RETURNING last"
)


def get_numbers(conn: apsw.Connection, tenant: str, job_ids: Sequence[str]) -> dict[str, int | None]:
    """Those that exist; None: it has no number yet."""
    found: dict[str, int | None] = {}
    for job_id in job_ids:
        for (key,) in conn.execute(_FIND, (job_id, tenant)):
            found[job_id] = number_of(key)
    return found


def number_jobs(tx: Tx, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for job_id, known in get_numbers(tx.conn, tenant, job_ids).items():
        number = known
        if number is None:
            number = take_numbers(tx, tenant, 1)
            tx.conn.execute("UPDATE jobs SET number = ? WHERE id = ?", (number_key(tenant, number), job_id))
        numbers[job_id] = number
    return numbers


def take_numbers(tx: Tx, tenant: str, count: int) -> int:
    return int(tx.conn.execute(_TAKE, (tenant, count)).get) - count + 1


def find_numbered(conn: apsw.Connection, tenant: str, number: int) -> str | None:
    found: str | None = conn.execute("SELECT id FROM jobs WHERE number = ?", (number_key(tenant, number),)).get
    return found
