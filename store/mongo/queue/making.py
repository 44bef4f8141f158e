"""The ends of runs that made new jobs, without a transaction.

The jobs are inserted hidden, and each notes in `by` whose delivery made it. The write that ends this delivery notes
`make.<name>` in its `todo`; the hidden jobs appear only after it (appearing.py). So an end that is not recorded leaves
nothing that a reader or a claim could find, and expire_locks removes it. The name follows from the token and from what
was made: a call that is repeated finds its jobs, and of a delivery that is reported twice only the jobs of the report
that is recorded appear. Children of the job that ends are counted in
the write that ends it: hidden or not, it waits for them.

Each of these steps is one write for all ends of a call. Only makers with relatives end in writes of their own.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from pymongo.errors import BulkWriteError

from store.mongo.queue.add import note_domains, places_taken
from store.mongo.queue.appearing import follow_made, maker_of
from store.mongo.queue.changes import apply
from store.mongo.queue.create import check_creation, drop_hidden
from store.mongo.queue.documents import job_document
from store.mongo.queue.endings import NEEDED, release_step
from store.mongo.queue.relatives import Carried, Made, end_with_relatives, new_join, rearm_with_children, with_made
from store.mongo.queue.release import Ending, MongoRelease, drop_bytes, keep_bytes, read_held
from store.mongo.queue.turns import note_turns
from store.mongo.server import schema
from store.mongo.server.bulk import places_in_order
from store.mongo.server.core import Core, once
from store.mongo.server.driver import Document, retried
from store.values.jobs import Archive, Finish, Rearm, ReleaseReport, Retry
from store.values.making import MakingEnd
from vocabulary.names import tenant_of


class _Maker(NamedTuple):
    """A run that ends, and the jobs of it that are hidden until then."""

    ending: Ending
    hidden: Sequence[Document]

    @property
    def id(self) -> str:
        return self.ending.release.id

    @property
    def made(self) -> Made:
        children = [document for document in self.hidden if document.get("parent") == self.id]
        joins = tuple(document["join"] for document in children if "join" in document)
        name = self.hidden[0]["by"].rpartition(".")[2] if self.hidden else str(self.ending.release.token)
        return Made(name, len(children), joins)

    @property
    def ends_alone(self) -> bool:
        """Whether relatives hear of this end, or its new children make it wait."""
        is_round = isinstance(self.ending.release, Archive | Finish | Rearm)
        return is_round and bool(self.ending.document["kin"] or self.made.kids)


class MongoMaking(MongoRelease):
    @once
    async def release_with_jobs(self, owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
        held = await read_held(self, owner, {end.release.id: end.release.token for end in ends})
        mine = [end for end in ends if end.release.id in held]
        for end in mine:
            await _check(self, end, held[end.release.id], now_ms)
        hidden = await _insert_hidden(self, mine, now_ms)
        endings = [await keep_bytes(self, end.release, held[end.release.id]) for end in mine]
        makers = [_Maker(ending, hidden[ending.release.id]) for ending in endings]
        ended = await _end(self, owner, makers, now_ms)
        for maker in makers:
            state = ended.get(maker.id)
            await drop_bytes(self, maker.ending, applied=state is not None, is_paused=state == schema.PAUSED)
            for document in maker.hidden if state is None else ():
                await drop_hidden(self, document, now_ms)
        await follow_made(self, list(ended), now_ms)
        stale = tuple(end.release.id for end in ends if end.release.id not in ended)
        paused = tuple(job_id for job_id, state in ended.items() if state == schema.PAUSED)
        return ReleaseReport(len(ended), stale, paused)


async def _check(db: Core, end: MakingEnd, document: Document, now_ms: int) -> None:
    """Raise what the new jobs are refused for. A child of the job that ends needs no look: that job is running."""
    tenant = tenant_of(document["type"])
    for job, keeps in end.new_jobs:
        is_free = not job.parent or (job.parent == end.release.id and tenant_of(job.jobtype) == tenant)
        if job.unique or not is_free:
            await check_creation(db, job, now_ms, keeps)


async def _insert_hidden(db: Core, ends: Sequence[MakingEnd], now_ms: int) -> dict[str, list[Document]]:
    """By maker, its new jobs. One whose id is there stays as it is and is left out, unless an earlier try of this call
    has inserted it."""
    jobs = [job for end in ends for job, _ in end.new_jobs]
    await note_domains(db, jobs)
    await note_turns(db, jobs)
    documents: list[Document] = []
    for end in ends:
        marks = {"at": now_ms, "by": maker_of(end.release.id, _name_of(end))}
        for job, keeps in end.new_jobs:
            data = await db.blobs.put(job.id, job.data)
            document = job_document(job, data, state=schema.HIDDEN, deferred=False, seq=None)
            if job.unique and job.parent == end.release.id:
                document["join"] = new_join()  # it is counted with the end, and may find its name taken
            documents.append(document | marks | {"keeps": sorted(keeps)})
    taken = await _insert_new(db, documents)
    there = await _found_hidden(db, [documents[place] for place in taken])
    found: dict[str, list[Document]] = {end.release.id: [] for end in ends}
    for place, document in enumerate(documents):
        known = there.get(document["_id"]) if place in taken else document
        if known is None or known.get("blob") != document.get("blob"):
            await db.blobs.remove([document.get("blob")])
        if known is not None:
            found[document["by"].rpartition(".")[0]].append(known)
    return found


def _name_of(end: MakingEnd) -> str:
    """Of this end, among all of its job."""
    made = "|".join(job.id for job, _ in end.new_jobs)
    return f"{end.release.token}{zlib.crc32(made.encode()):010d}"


async def _insert_new(db: Core, documents: list[Document]) -> set[int]:
    """The places of those that were there already. Safe to repeat: who made a job is noted in it."""
    order = places_in_order(documents)
    try:
        if documents:
            sent = [documents[place] for place in order]
            await retried(lambda: db.collections.jobs.insert_many(sent, ordered=False))
    except BulkWriteError as error:
        return {order[place] for place in places_taken(error)}
    return set()


async def _found_hidden(db: Core, documents: Sequence[Document]) -> dict[str, Document]:
    """Of these jobs, those that are hidden and of the same maker."""
    if not documents:
        return {}
    makers = {document["_id"]: document["by"] for document in documents}
    which = {"_id": {"$in": list(makers)}, "s": schema.HIDDEN}
    rows = await db.collections.jobs.find(which, NEEDED).to_list(None)
    return {row["_id"]: row for row in rows if row["by"] == makers[row["_id"]]}


async def _end(db: Core, owner: str, makers: Sequence[_Maker], now_ms: int) -> dict[str, str]:
    """Those that have ended, with their new states; the others are not the owner's any more."""
    together = [maker for maker in makers if not maker.ends_alone]
    steps = {}
    for maker in together:
        release, document, result, data = maker.ending
        step = release_step(document, release, result, data, owner=owner, now_ms=now_ms)
        steps[maker.id] = with_made(step, document, maker.made)
    done = await apply(db, list(steps.values()), now_ms)
    ended: dict[str, str] = {job_id: steps[job_id].update["$set"]["s"] for job_id in done}
    left = await read_held(
        db, owner, {maker.id: maker.ending.release.token for maker in together if maker.id not in done}
    )
    for maker in makers:
        document = left.get(maker.id, maker.ending.document)
        if maker.ends_alone or maker.id in left:
            state = await _end_alone(db, owner, maker._replace(ending=maker.ending._replace(document=document)), now_ms)
            if state is not None:
                ended[maker.id] = state
    return ended


async def _end_alone(db: Core, owner: str, maker: _Maker, now_ms: int) -> str | None:
    """Its new state; None if it is not the owner's any more."""
    release, document, result, data = maker.ending
    ended: Document | None
    if isinstance(release, Archive | Finish):
        carried = Carried(release.data, data) if isinstance(release, Finish) else None
        ended = await end_with_relatives(
            db, document, release.outcome, result, owner=owner, now_ms=now_ms, made=maker.made, carried=carried
        )
    elif isinstance(release, Rearm):
        ended = await rearm_with_children(
            db, document, release, result, data, owner=owner, now_ms=now_ms, made=maker.made
        )
    else:
        assert isinstance(release, Retry)
        step = release_step(document, release, result, data, owner=owner, now_ms=now_ms)
        is_done = await apply(db, [with_made(step, document, maker.made)], now_ms)
        ended = {"s": schema.QUEUED} if is_done else None
    return None if ended is None else ended["s"]
