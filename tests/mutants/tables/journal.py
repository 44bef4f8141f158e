"""Lines that are lost, doubled, reordered or damaged without a word."""

from tests.mutants.mutant import Mutant, in_file

UNIT = "tests/unit/journal tests/property/test_journal_roundtrip.py tests/property/test_ledger.py"
CRASH = "tests/unit/journal tests/crash/test_crash_model.py tests/crash/test_faults.py"

writer = in_file("journal/writer.py", CRASH)
commits = in_file("journal/commits.py", UNIT)
backlog = in_file("journal/backlog.py", UNIT)
main = in_file("journal/journal.py", UNIT)
ledger = in_file("journal/ledger.py", "tests/property/test_ledger.py tests/unit/journal")
lines = in_file("journal/lines.py", UNIT)
recovery = in_file("journal/recovery.py", CRASH)
segment = in_file("journal/segment.py", CRASH)
form = in_file("journal/format.py", UNIT)
cursor = in_file("journal/cursor.py", CRASH)
ids = in_file("journal/ids.py", UNIT)
disk = in_file("journal/disk.py", UNIT)
recent = in_file("journal/recent.py", UNIT)
copying = in_file("journal/copying.py", UNIT)
writes = in_file("journal/writes.py", UNIT)
payloads = in_file("journal/payloads.py", "tests/unit/journal/test_payloads.py tests/unit/journal")

MUTANTS: list[Mutant] = [
    writer(
        "a failed sync keeps the segment",
        '            self._leave(segment)\n            raise _unavailable(error, f"sync',
        '            raise _unavailable(error, f"sync',
    ),
    writer(
        "what was refused comes back with a power cut",
        "        with suppress(OSError, JournalUnavailable):  # the next write tries again, and whoever looks after the disk\n"
        "            self._begin_segment()\n",
        "",
    ),
    disk("who removes the lock file lets a second writer in", "                self._lock_folder(held)\n", ""),
    disk(
        "a folder that cannot be locked has no journal",
        '            log.debug("journal.folder_not_locked", extra={"reason": str(error)})',
        "            raise error",
    ),
    writer("half a write stays behind", "            self._take_back(segment, error)\n", ""),
    writer(
        "a segment number is used twice",
        "        self._last_number += 1  #",
        "        self._last_number = max(self._last_number, 1)  #",
    ),
    writer(
        "a new header forgets where its predecessor ends",
        "            prev_bytes=previous.end,",
        "            prev_bytes=0,",
    ),
    writer("no room is left for the store", "free_bytes()) - size < min_free:", "free_bytes()) - size < 0:"),
    writer(
        "the segment grows before it is synced",
        "        data = frame_batches(batches, segment.end, segment.salt)\n",
        "        data = frame_batches(batches, segment.end, segment.salt)\n        segment.end += len(data)\n",
    ),
    commits(
        "a failed write is acknowledged",
        "settled(None if isinstance(verdict, Appended) else _own_copy(verdict))",
        "settled(None)",
    ),
    commits(
        "a group takes the first write only to lose the others",
        "                group.append(self._waiting.popleft())",
        "                group = [self._waiting.popleft()]",
    ),
    main("a backlog has no limit", "        self._backlog.require_room()\n", ""),
    main("a full backlog is no trouble", " or self._backlog.trouble.reason", ""),
    writer(
        "a disk is well again as soon as somebody asks",
        "            self._require_room(_SMALL_WRITE_BYTES)\n            if self._open is None",
        "            if self._open is None",
    ),
    main(
        "lines of an earlier life wait for the next write",
        "        if self._backlog.size_bytes:\n            self._news.set()",
        "        if False:\n            self._news.set()",
        tests="tests/unit/journal",
    ),
    backlog(
        "the segment that is read is removed while it grows",
        "number == point.segment and number < newest and",
        "number == point.segment and",
    ),
    main(
        "a lapsed reservation may be synced",
        "        self._require_open()\n        self._expire()\n        self._ledger.require(reservation)",
        "        self._require_open()\n        self._ledger.require(reservation)",
    ),
    main(
        "the store's position is ignored",
        "            start = self._read_from or self._cursor.position",
        "            start = self._cursor.position",
    ),
    backlog(
        "a damaged segment is removed with the others",
        "            if number in self._damaged:",
        "            if False:",
    ),
    main(
        "new segments begin below the read position",
        "last_number = max(recovered.last_number, start.segment, self._cursor.position.segment)",
        "last_number = recovered.last_number",
    ),
    main(
        "a close does not wait for writes under way",
        "        await self._commits.drain()\n        async with",
        "        async with",
    ),
    ledger(
        "lines that came back go to the end",
        "heapq.heappop(self._returned) if self._returned else Span(self.frontier, END, sys.maxsize)",
        "Span(self.frontier, END, sys.maxsize)",
    ),
    ledger(
        "the read point passes lines that are held",
        "        starts = [span.start for span in self._held.values()]",
        "        starts: list[Position] = []",
    ),
    ledger(
        "the read point passes lines that came back",
        "        starts += [self._returned[0].start] if self._returned else []\n",
        "",
    ),
    ledger(
        "the rest of what came back is dropped",
        "        elif loaded.lines and loaded.end < offered.end:",
        "        elif False:",
    ),
    ledger("reservations never lapse", "self._deadlines[0][0] <= now_s:", "self._deadlines[0][0] <= now_s - 10**9:"),
    ledger(
        "a reservation that ended is finished again",
        "        self.require(reservation)\n        del self._held[reservation.token]\n\n    def give_back",
        "        self._held.pop(reservation.token, None)\n\n    def give_back",
    ),
    lines(
        "a reader that starts inside a batch reads it from its first line",
        "            self._line = min(start.line, len(self._records))",
        "            self._line = 0",
    ),
    lines(
        "a piece reads past its end",
        "            end = min(end, stop.line)",
        "            end = end",
        equivalent="whoever names an end asks for no more lines than lie before it: the second lock on the door",
    ),
    lines(
        "the reader skips a segment",
        "min((other for other in segments if other > number), default=None)",
        "max((other for other in segments if other > number), default=None)",
    ),
    lines(
        "damage is stepped over in silence",
        "                self._on_damage(self._number, found)",
        "                pass",
    ),
    recovery("a torn end is not cut off", "                findings += _cut_torn_end(disk, number, file, end)\n", ""),
    recovery(
        "a torn end is cut at the first doubt whatever follows",
        "            doubts = [offset for offset in doubts if offset >= found.sync]\n",
        "",
    ),
    recovery(
        "acknowledged damage is cut off",
        "    return Tail(doubts[0] if doubts else end, last_frame)",
        "    return Tail(FIRST_FRAME if doubts else end, last_frame)",
    ),
    recovery(
        "what is past the acknowledged end is read",
        "                end = acknowledged[number]\n",
        "                end = max(acknowledged[number], file.size())\n",
    ),
    recovery(
        "ids start anew after a crash",
        "                    floor_ms = max(floor_ms, parse_id",
        "                    floor_ms = min(floor_ms, parse_id",
    ),
    recovery(
        "a damaged header is taken for a torn one",
        "    return max(size, acknowledged) <= SEGMENT_HEADER_BYTES",
        "    return True",
    ),
    recovery(
        "a segment that was cut is taken for a torn one",
        "    return max(size, acknowledged) <= SEGMENT_HEADER_BYTES",
        "    return size <= SEGMENT_HEADER_BYTES",
    ),
    recovery(
        "nobody misses a segment that is gone",
        "    return (read_from.segment, read_from.offset) < (number, end)",
        "    return False",
    ),
    recovery(
        "a segment that was read and removed is missed",
        "    return (read_from.segment, read_from.offset) < (number, end)",
        "    return True",
    ),
    segment(
        "after damage the reader gives the segment up",
        "                if self._frame_at(start) is not None:\n                    return start",
        "                if self._frame_at(start) is not None:\n                    return self._end",
    ),
    form(
        "a wrong checksum is read",
        "!= int(checksum, 16):\n        return None\n    if data",
        "!= int(checksum, 16):\n        pass\n    if data",
    ),
    form(
        "frames of an older file at the same place are read",
        "crc32(body, crc32(data[at : match.start(9)], salt))",
        "crc32(body, crc32(data[at : match.start(9)], 0))",
        tests=CRASH,
    ),
    form(
        "encoded payloads are handed over encoded",
        "        payloads = [a2b_base64(payload) for payload in payloads]",
        "        payloads = list(payloads)",
    ),
    cursor("both slots are written at the same place", "self._turn % 2 * _SLOT_BYTES", "0"),
    cursor(
        "the older slot wins",
        "            newest = max(newest, (int(match[1]), position))",
        "            newest = min(newest, (int(match[1]), position))",
    ),
    cursor(
        "a torn slot is believed",
        "        if match and crc32(slot[: match.start(5)]) == int(match[6], 16):",
        "        if match:",
        tests="tests/unit/journal tests/crash/test_crash_model.py",
    ),
    ids(
        "a clock that steps back repeats ids",
        "        if now_ms > self._time_ms:",
        "        if now_ms != self._time_ms:",
    ),
    ids(
        "a full millisecond wraps around",
        "            self._time_ms, self._counter = self._time_ms + 1, 0",
        "            self._counter = 0",
    ),
    ids(
        "the millisecond of the floor is used again",
        "        self._counter = COUNTER_LIMIT\n",
        "        self._counter = 0\n",
    ),
    recent(
        "the memory serves lines of another place",
        "            if placed[:2] != piece.end[:2] or left == 0 or max_bytes < 0:",
        "            if left == 0 or max_bytes < 0:",
    ),
    copying(
        "segments are listed after others were copied",
        "    segments = [name for name in source.names() if segment_number(name) is not None]\n    copied = [name for name in segments if _copy(source, target, name)]\n",
        "    copied = [name for name in reversed(source.names()) if segment_number(name) is not None and _copy(source, target, name)]\n",
        equivalent="the list is still made once, before any segment is copied; only their order differs",
    ),
    copying(
        "a damaged segment that got another name is left out",
        "    copied += [name for name in others if _copy(source, target, name)]\n",
        "",
    ),
    payloads(
        "a line with a newline becomes two",
        '    if joined.count(b"\\n") != lines - 1 or b"\\0" in joined:',
        '    if b"\\0" in joined:',
    ),
    payloads("many lines are looked at in one go", "        if parts:\n            await asyncio.sleep(0)\n", ""),
    payloads(
        "one large line makes a part of all", "    if count == 1 or count * longest <= PART_BYTES or", "    if count or"
    ),
    payloads(
        "only the last part says whether lines are text", "all(part.is_text for part in parts)", "parts[-1].is_text"
    ),
    payloads(
        "only the last part says which line is longest", "max([part.longest for part in parts])", "parts[-1].longest"
    ),
    ids(
        "the ids of some lines begin with the first",
        "first=self._ids.first + start, size",
        "first=self._ids.first, size",
    ),
    writes(
        "writes of different types share a batch",
        "        if size_bytes > _MERGED_BYTES or not write.is_like(run[0]):",
        "        if size_bytes > _MERGED_BYTES:",
    ),
]
