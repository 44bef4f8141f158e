"""Claiming jobs with a key: of open turns, the one that has used the least time first (turns.py)."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from store.claim_rules import MOST_WOKEN, OF_CLAIMS, TURN_WAIT_MS
from store.mongo.queue.documents import domain_of
from store.mongo.queue.rates import Held, give_tokens_back, limits_of, reopen_domains, take_tokens, whole_tokens
from store.mongo.queue.taking import ORDER, Room, lock
from store.mongo.queue.token_waits import domain_in, note_waits, open_for_tokens
from store.mongo.queue.turns import IDLE_MS, Standing, fence, first_queued, note_retried, queued_of, read_standing
from store.mongo.server.bulk import Write, delete_one, update_found, update_one, write_each
from store.mongo.server.core import Core, repeatable
from store.mongo.server.driver import Document
from store.mongo.server.schema import KEYED, LATER_TURNS, OPEN_TURNS, QUEUED
from store.mongo.server.turn_opening import turn_id
from store.names import JOB_COST_US, KEY_CREDIT_US
from store.values.claims import Claim
from store.values.jobs import KeyState
from vocabulary.names import tenant_of

_ROUNDS: Final = 8
_AT_ONCE: Final = 200
"""Turns that one round looks at, at most."""
_MORE: Final = 4
"""A round that took too little is followed by one that looks at so many times as many turns."""
_MOST_LOOKS: Final = 200
"""Turns beyond the limit that one claim looks at in vain; the next one goes on from there."""
_MOST_TOKEN_WAIT_MS: Final = 600_000
"""The same for a turn whose rate domain has no token, which is opened when there is one: a process may have died before
it noted that the turn waits. It is long because very many turns may wait for one token."""


class _Offer(NamedTuple):
    """What one turn has to offer. places: how many more may run; None: no cap. retried: under a cap of one, the jobs
    that nothing may overtake; has_all: there are no others."""

    turn: Document
    counting: list[Document]
    places: int | None
    jobs: list[Document]
    wanted: int
    until_ms: int | None = None
    retried: Sequence[Document] = ()
    has_all: bool = False


class MongoKeys(Core):
    @repeatable
    async def get_key_state(self, tenant: str, jobtype: str, key: str, *, limit: int, now_ms: int) -> KeyState:
        turn = await self.collections.turns.find_one({"_id": turn_id(jobtype, key)})
        if turn is None:
            return KeyState(())
        standing = await read_standing(self, [turn])
        retried = first_queued(standing.retried(turn))
        due = self.collections.jobs.find(queued_of(turn) | {"at": {"$lte": now_ms}}, {"_id": 1}, hint=KEYED)
        first = [job["_id"] for job in await due.sort(list(ORDER.items())).limit(1).to_list(1)]
        return KeyState(
            tuple(standing.running(turn)[:limit]), "" if retried is None else retried["_id"], first[0] if first else ""
        )


async def take_turns(db: Core, claim: Claim, room: Room, *, served: int, has_domains: bool) -> list[Document]:
    """Jobs with a key, locked. served: as the type has it."""
    turns = db.collections.turns
    if has_domains:
        await open_for_tokens(db, claim)
    due = {"type": claim.jobtype, "open": False, "at": {"$lte": claim.now_ms}}
    if woken := await turns.find(due, {"_id": 1}, hint=LATER_TURNS).limit(MOST_WOKEN).to_list(MOST_WOKEN):
        await turns.update_many({"_id": {"$in": [turn["_id"] for turn in woken]}}, {"$set": {"open": True}})
    behind = served - KEY_CREDIT_US
    taken: list[Document] = []
    looks = claim.limit + _MOST_LOOKS
    for number in range(_ROUNDS):
        if room.jobs <= 0 or looks <= 0:
            break
        count = min(room.jobs * _MORE**number, _AT_ONCE, looks)
        cursor = turns.find({"type": claim.jobtype, "open": True}, hint=OPEN_TURNS).sort([("tag", 1), ("_id", 1)])
        found = await cursor.limit(count).to_list(count)
        if not found:
            break
        if found[0]["tag"] < behind:  # it opened since the last claim, with more saved up than its credit
            late = {"type": claim.jobtype, "open": True, "tag": {"$lt": behind}}
            await update_found(turns, late, {"$max": {"tag": behind}}, hint=OPEN_TURNS)
            continue
        looks -= len(found)
        taken += await _one_round(db, found, claim, room, has_domains=has_domains)
    return taken


async def _one_round(
    db: Core, turns: Sequence[Document], claim: Claim, room: Room, *, has_domains: bool
) -> list[Document]:
    standing = await read_standing(db, turns)
    share = max(1, room.jobs // len(turns))
    offers = await asyncio.gather(*(_offer(db, turn, standing, claim, share) for turn in turns))
    mark = secrets.randbits(62)
    tokens = await _Tokens.read(db, offers, claim) if has_domains else _Tokens(db, claim, {})
    chosen: list[tuple[_Offer, list[Document], str | None]] = []
    for offer in offers:
        chosen.append((offer, *_choose(offer, room, tokens)))
        if room.jobs <= 0:
            break
    given = await tokens.take(mark)
    changed: list[tuple[_Offer, list[Document]]] = []
    in_vain: list[Write] = []
    for offer, jobs, without_token in chosen:
        mine = [job for job in jobs if tokens.is_given(job, given)]
        step = _step(offer, mine, claim, without_token, is_outrun=len(mine) < len(jobs))
        if not mine:
            in_vain.append(step)
        elif (await write_each(db.collections.turns, [step])).matched:
            changed.append((offer, mine))
    if in_vain:
        await write_each(db.collections.turns, in_vain)
    await tokens.note_waits({domain for _, _, domain in chosen if domain is not None})
    taken = await lock(db, [job for _, mine in changed for job in mine], claim, mark)
    await tokens.give_back(given, taken)
    room.give_back([job for _, jobs, _ in chosen for job in jobs], taken)
    served = [offer.turn["tag"] for offer, _ in changed]
    if served:
        await db.collections.types.update_one({"_id": claim.jobtype}, {"$max": {"served": min(served)}})
    return taken


async def _offer(db: Core, turn: Document, standing: Standing, claim: Claim, share: int) -> _Offer:
    counting, doubtful = standing.held(turn, claim.now_ms)
    for entry in doubtful:
        if await fence(db, entry):
            counting.remove(entry)
    places = None if claim.max_per_key is None else claim.max_per_key - len(counting)
    offer = _Offer(turn, counting, places, [], share if places is None else min(share, places))
    if claim.max_per_key == 1:
        offer = offer._replace(retried=standing.retried(turn), has_all=turn.get("all", False))
    if offer.wanted <= 0:
        return offer._replace(wanted=0, until_ms=claim.now_ms + TURN_WAIT_MS)
    if claim.max_per_key == 1:
        if not offer.has_all and not first_queued(offer.retried):  # after the cap was another
            noted = await note_retried(db, turn)
            if noted is None:  # `_write` will see that, too
                return offer._replace(wanted=0)
            return await _offer(db, noted, await read_standing(db, [noted]), claim, share)
        if first := first_queued(offer.retried):
            if first["at"] > claim.now_ms:
                return offer._replace(wanted=0, until_ms=first["at"])
            jobs = await db.collections.jobs.find({"_id": first["_id"], "s": QUEUED}).to_list(1)
            return offer._replace(jobs=jobs)
    return await _with_jobs(db, offer, claim)


async def _with_jobs(db: Core, offer: _Offer, claim: Claim) -> _Offer:
    """The offer with the first jobs of its turn; where there are fewer than wanted, with the time of the next."""
    queued, wanted = queued_of(offer.turn), offer.wanted
    found = db.collections.jobs.find(queued | {"at": {"$lte": claim.now_ms}}, hint=KEYED)
    jobs = await found.sort(list(ORDER.items())).limit(wanted).to_list(wanted)
    if len(jobs) == wanted:
        return offer._replace(jobs=jobs)
    later = (
        await db.collections.jobs.find(queued | {"at": {"$gt": claim.now_ms}}, {"at": 1}, hint=KEYED)
        .sort("at", 1)
        .limit(1)
        .to_list(1)
    )
    return offer._replace(jobs=jobs, until_ms=later[0]["at"] if later else None)


def _choose(offer: _Offer, room: Room, tokens: "_Tokens") -> tuple[list[Document], str | None]:
    """The jobs for which there is room and a token; and what the next waits for, if a token is what is missing."""
    chosen: list[Document] = []
    for job in offer.jobs:
        if not tokens.has_one(job):
            return chosen, tokens.wait_of(job)
        if not room.take(job["size"]):
            break
        tokens.want(job)
        chosen.append(job)
    return chosen, None


def _step(
    offer: _Offer, jobs: Sequence[Document], claim: Claim, without_token: str | None, *, is_outrun: bool
) -> Write:
    """Puts the deliveries into the turn, before they are locked, and says when to look at it again. It does nothing if
    the turn changed meanwhile, which then has to be read again. is_outrun: another daemon took tokens of its jobs."""
    turn = offer.turn
    same = {"_id": turn["_id"], "v": turn["v"]}
    entries = [{"job": job["_id"], "token": job["token"] + 1, "at": claim.now_ms} for job in jobs]
    chosen = {job["_id"] for job in jobs}
    retried = [
        {"job": job["_id"], "token": job["token"], "at": claim.now_ms}
        for job in offer.retried
        if job["_id"] not in chosen
    ]
    held = [*offer.counting, *entries, *retried]
    state: Document = {"open": True, "at": None}
    if is_outrun:
        pass
    elif without_token is not None:
        state = {"open": False, "at": claim.now_ms + _MOST_TOKEN_WAIT_MS, "dom": without_token}
    elif offer.places is not None and len(jobs) == offer.places:
        state = {"open": False, "at": claim.now_ms + TURN_WAIT_MS}
    elif len(jobs) == len(offer.jobs) < offer.wanted or offer.wanted == 0:
        state = {"open": False, "at": offer.until_ms}
        if offer.until_ms is None and not held:
            if turn.get("idle"):
                return delete_one(same)
            state = {"open": False, "at": claim.now_ms + IDLE_MS, "idle": True}
        elif offer.until_ms is None:
            state["at"] = claim.now_ms + TURN_WAIT_MS
    update: Document = {
        "$set": {**state, "held": held, "all": offer.has_all},
        "$inc": {"v": 1, "claims": 1, "tag": JOB_COST_US * len(jobs)},
    }
    if "dom" not in state:
        update["$unset"] = {"dom": ""}
    return update_one(same, update)


class _Tokens:
    """The tokens of rate domains that a round takes: all that it wants of a domain, or none."""

    def __init__(self, db: Core, claim: Claim, buckets: dict[str, Held]) -> None:
        self._db = db
        self._claim = claim
        self._buckets = buckets
        self._left = {domain: whole_tokens(bucket) for domain, bucket in buckets.items()}
        self._wanted: Counter[str] = Counter()

    @classmethod
    async def read(cls, db: Core, offers: Sequence[_Offer], claim: Claim) -> "_Tokens":
        domains = {domain_of(job) or claim.domain for offer in offers for job in offer.jobs}
        return cls(db, claim, await limits_of(db, tenant_of(claim.jobtype), domains, claim.now_ms))

    def domain_of(self, job: Document) -> str:
        return domain_of(job) or self._claim.domain

    def wait_of(self, job: Document) -> str:
        """What its turn waits for without a token, as token_waits.py has it."""
        return domain_of(job) or OF_CLAIMS + self._claim.domain

    def has_one(self, job: Document) -> bool:
        return self._left.get(self.domain_of(job), 1) > 0

    def want(self, job: Document) -> None:
        domain = self.domain_of(job)
        if domain in self._left:
            self._left[domain] -= 1
            self._wanted[domain] += 1

    async def note_waits(self, names: Iterable[str]) -> None:
        """Turns were closed because these have no token left."""
        seen = {name: self._buckets[domain_in(name)] for name in names}
        await note_waits(self._db, self._claim, seen, self._wanted)

    async def take(self, mark: int) -> set[str]:
        return await take_tokens(self._db, self._buckets, self._wanted, mark=mark, now_ms=self._claim.now_ms)

    def is_given(self, job: Document, given: set[str]) -> bool:
        domain = self.domain_of(job)
        return domain not in self._wanted or domain in given

    async def give_back(self, given: set[str], taken: Sequence[Document]) -> None:
        used = Counter(map(self.domain_of, taken))
        unused = {
            domain: self._wanted[domain] - used[domain] for domain in given if self._wanted[domain] > used[domain]
        }
        await give_tokens_back(self._db, self._buckets, Counter(unused))
        await reopen_domains(self._db, self._claim.jobtype, unused)
