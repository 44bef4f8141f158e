"""Parents and children, without transactions.

What an end means for relatives follows in later steps, each idempotent. The document that ends notes them in
`todo`, in the same write; they are struck off when they are done, and expire_locks repeats what was not:

    free     children that were held by this parent become eligible (it was paused)
    cancel   children that are held by this parent are cancelled (it ended, and not with ok)
    up       the parent of this job is queued again if this was the last child that it waited for
    hold     this job is held by a parent that may have ended while it was being created

A parent counts its children in `kids`; every change that depends on them is on condition that the number
is as it was read. So no child can appear between the look and the change.
"""

from typing import Final

from store.mongo import schema
from store.mongo.blobs import Kept
from store.mongo.changing import Changing
from store.mongo.driver import Document
from store.mongo.endings import CANCELLED, NEEDED, Step, archive_step, held_by, pause_step, queue_step
from store.values.jobs import Code, Outcome

FREE: Final = "free"
CANCEL: Final = "cancel"
UP: Final = "up"
HOLD: Final = "hold"

_CHUNK: Final = 500


class Relatives(Changing):
    async def end_with_relatives(
        self, document: Document, outcome: Outcome, result: Kept | None, *, owner: str | None, now_ms: int
    ) -> Document | None:
        """End a job that has relatives: a run of it by its owner, or without a run (owner None).

        Answers the document as it was when it ended, with its new state in `s`; None if it is not in that
        hand or place any more.
        """
        job_id, state = document["_id"], document["s"]
        current: Document | None = document
        while current is not None and current["s"] == state:
            step = await self._ending(current, outcome, result, owner, now_ms)
            if await self.apply([step], now_ms):
                await self.follow(job_id, now_ms)
                return {**current, "s": step.update["$set"]["s"]}
            same = {"token": document["token"]} | ({} if owner is None else {"lock": owner})
            current = await self.collections.jobs.find_one({"_id": job_id, **same}, NEEDED)
        return None

    async def _ending(
        self, document: Document, outcome: Outcome, result: Kept | None, owner: str | None, now_ms: int
    ) -> Step:
        kids = document.get("kids")
        if owner is not None and kids and outcome.code == Code.OK and await self._is_waited_for(document["_id"]):
            step = pause_step(document, outcome, result, owner=owner, now_ms=now_ms)
            return _with_todo(step, [FREE])
        step = archive_step(document, outcome, result, now_ms=now_ms, ran=owner is not None)
        if owner is not None:
            step = step._replace(condition=held_by(document, owner) | {"kids": kids})
        todo = [UP] if document.get("pend") else []
        return _with_todo(step, [*todo, CANCEL] if kids and outcome.code != Code.OK else todo)

    async def follow(self, job_id: str, now_ms: int) -> None:
        """Do what a job's end means for its relatives, if anything is left to do. Idempotent."""
        ended = await self.collections.jobs.find_one(
            {"_id": job_id, "todo": {"$exists": True}}, {"todo": 1, "token": 1, "parent": 1}
        )
        if ended is None:
            return
        if FREE in ended["todo"]:
            await self._free_children(job_id, now_ms)
        if CANCEL in ended["todo"]:
            await self._cancel_children(job_id, now_ms)
        if UP in ended["todo"]:
            await self.wake_parent(ended["parent"], now_ms)
        if HOLD in ended["todo"]:
            await self._look_at_parent(ended["parent"], now_ms)
        done = {"_id": job_id, "token": ended["token"], "todo": ended["todo"]}
        await self.collections.jobs.update_one(done, {"$unset": {"todo": ""}})

    async def wake_parent(self, parent_id: str, now_ms: int) -> None:
        """Queue a parent that waits for children if there is none left."""
        while True:
            parent = await self.collections.jobs.find_one({"_id": parent_id, "s": schema.PAUSED}, NEEDED)
            if parent is None or await self._is_waited_for(parent_id):
                return
            if await self.apply([queue_step(parent, due_ms=now_ms, now_ms=now_ms, attempts=0)], now_ms):
                return

    async def _look_at_parent(self, parent_id: str, now_ms: int) -> None:
        """Do for the held children of a parent what its end would have done, if it has ended."""
        parent = await self.collections.jobs.find_one({"_id": parent_id}, {"s": 1})
        if parent is None or parent["s"] in schema.ARCHIVED_STATES:
            await self._cancel_children(parent_id, now_ms)
        elif parent["s"] != schema.RUNNING:
            await self._free_children(parent_id, now_ms)

    async def _free_children(self, parent_id: str, now_ms: int) -> None:
        while children := await self._held_children(parent_id):
            await self.apply([queue_step(child, due_ms=child["due"], now_ms=now_ms) for child in children], now_ms)

    async def _cancel_children(self, parent_id: str, now_ms: int) -> None:
        while children := await self._held_children(parent_id):
            steps = [archive_step(child, CANCELLED, None, now_ms=now_ms, ran=False) for child in children]
            await self.apply(
                [
                    _with_todo(step, [CANCEL] if child.get("kids") else [])
                    for step, child in zip(steps, children, strict=True)
                ],
                now_ms,
            )
            for child in children:
                if child.get("kids"):
                    await self.follow(child["_id"], now_ms)

    async def _held_children(self, parent_id: str) -> list[Document]:
        held = {"parent": parent_id, "pend": True, "s": schema.HELD}
        return await self.collections.jobs.find(held, NEEDED).to_list(_CHUNK)

    async def _is_waited_for(self, parent_id: str) -> bool:
        """Whether the parent has a child that is not terminal."""
        return await self.collections.jobs.find_one({"parent": parent_id, "pend": True}, {"_id": 1}) is not None


def _with_todo(step: Step, todo: list[str]) -> Step:
    if not todo:
        return step
    return step._replace(update={**step.update, "$set": {**step.update["$set"], "todo": todo}})
