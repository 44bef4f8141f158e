"""Promises of the straight way to who comes while others are under way: they start together, or follow. And of what has
ended none comes back."""

from tests.mutants.mutant import Mutant, in_file

gathering = in_file("functory/execution/straight/gathering.py", "tests/unit/functory/test_gathering.py")
FOLLOWERS = "tests/service/test_followers.py"
following = in_file("functory/execution/straight/way.py", FOLLOWERS)
followed_lines = in_file("functory/intake/backlog.py", FOLLOWERS)
followers = in_file("functory/execution/straight/followers.py", FOLLOWERS)
claims = in_file("functory/execution/executor.py", FOLLOWERS)
outlook = in_file("functory/execution/outlook.py", FOLLOWERS)
remembers = in_file("functory/execution/outlook.py", "tests/unit/functory/test_outlook_memory.py")
line = in_file("functory/intake/line.py", "tests/service/test_backlog.py")
FLOODS = "tests/service/test_straight_floods.py"
READER = "tests/service/test_reader_of_floods.py"
fed = in_file("functory/intake/backlog.py", READER)
rooms = in_file("functory/intake/backlog.py", FLOODS)
feeder = in_file("functory/intake/journal_reader.py", READER)
lists = in_file("functory/operations/jobs.py", FLOODS)
turns = in_file("functory/execution/executor.py", FLOODS)
fed_way = in_file("functory/execution/straight/way.py", FLOODS)
pause = in_file("functory/execution/straight/reader_pause.py", FLOODS)
board = in_file("functory/operations/figures.py", FLOODS)
BESIDE = "tests/service/test_flood_neighbours.py"
beside = in_file("functory/intake/backlog.py", BESIDE)
beside_way = in_file("functory/execution/straight/way.py", BESIDE)
flushes = in_file("functory/intake/flushes.py", BESIDE)
offers = in_file("functory/execution/offers.py", BESIDE)
longest = in_file("functory/execution/straight/waiting_jobs.py", BESIDE)
in_bulk = in_file("store/sqlite/queue/bulk_straight.py", "tests/contract/store/test_straight.py")
ENDS = "tests/service/test_straight_ends.py"
added_once = in_file("functory/intake/backlog.py", "tests/service/test_added_once.py")
ends = in_file("functory/execution/straight/ends.py", ENDS)

courtesy = in_file("functory/loops/courtesy.py", "tests/unit/functory/test_courtesy.py")

MUTANTS: list[Mutant] = [
    line("many lines that nobody runs wait for company", " or self.lines >= _MANY", ""),
    line("lines that may run wait for company", "if is_urgent or ", "if "),
    line(
        "one line that may run has all others hurry for ever",
        "            self.is_urgent = False\n",
        "            pass\n",
    ),
    gathering("who is alone waits", "0.0 if began_s is None else", "MOMENT_S if began_s is None else"),
    gathering(
        "what has ended holds others up",
        "in jobtypes:\n            self._under_way.pop(jobtype, None)\n",
        "in jobtypes:\n            pass\n",
    ),
    gathering("many wait for more", "        if jobs >= ENOUGH:", "        if False:"),
    gathering("a flood makes others wait", "        if jobs < ENOUGH:", "        if True:"),
    gathering(
        "types are remembered without a bound", "        if len(self._under_way) > _MOST_TYPES:", "        if False:"
    ),
    followers(
        "one that finds another before it is never straight again", "ahead is None or ahead + ", "True or ahead + "
    ),
    followers("a flood follows itself", "self._in_line(tenant_of(jobtype)) > FEW", "0 > FEW"),
    following(
        "who follows overtakes",
        "        if self._followers.has_none_before(jobtype):",
        "        if True:",
    ),
    followers(
        "who follows what is in the journal overtakes it",
        " and self._is_clear(jobtype) and not self._in_line(tenant_of(jobtype))",
        " and self._is_clear(jobtype)",
    ),
    following(
        "later ones on the long way overtake who follows",
        "in self._waiting):\n            self._return(jobtype)\n",
        "in self._waiting):\n            pass\n",
    ),
    claims(
        "a look that saw half a claim clears the type",
        "                self._outlook.added([pick.jobtype])  # it",
        "                # it",
    ),
    following(
        "who has followed in vain waits for ever",
        "in self._followers.waited(waiting_jobs.RETURN_AFTER_S):",
        "in self._followers.waited(1e9):",
    ),
    following("all follow in vain", "            self._followers.tire(jobtype)\n", ""),
    following(
        "a flush forgets who follows",
        "dict.fromkeys([*self._waiting, *self._followers.jobtypes])",
        "dict.fromkeys(self._waiting)",
    ),
    followed_lines(
        "nobody hurries those that others follow",
        "            if self._line.of(tenant) > 0:  # somebody follows these\n                self._line.hurry()\n",
        "",
    ),
    followed_lines(
        "lines on their way past are overtaken",
        "max(self._line.of(tenant), 0) + self._boarding_of.get(tenant, 0)",
        "max(self._line.of(tenant), 0)",
    ),
    ends(
        "a job is shown after its end",
        '            self._troubles.setdefault(job_id, "")\n',
        "            pass\n",
    ),
    ends(
        "a flush waits for ends that cannot be recorded",
        "        self._troubles.update(dict.fromkeys(ids, reason))\n",
        "        pass\n",
    ),
    added_once(
        "what ran meanwhile is added when a line beside it is read again",
        "        self._ahead.update(dict.fromkeys(done, True))\n",
        "",
    ),
    added_once(
        "what runs is added when a line beside it is read again",
        "                self._ahead[job_id] = False\n",
        "                pass\n",
    ),
    added_once(
        "the reader adds what is on its way past", "        while self._boarding and ", "        while False and "
    ),
    added_once("what the reader has in hand goes past it", "ids[0] > self._reached and ", ""),
    outlook("nobody hears that jobs were taken", "        self.on_fewer((jobtype,))\n", ""),
    outlook(
        "who follows what rests waits in vain", "jobtype not in self._resting and self._is_known", "self._is_known"
    ),
    remembers(
        "a daemon that never looks remembers all types", "self._is_looking or self.age_s <= self._life_s", "True"
    ),
    remembers("what comes during a look is forgotten", "self._is_looking or self.age_s", "self.age_s"),
    longest(
        "who posts thousands leaves others no room",
        "(_MOST, _MOST_BYTES) if are_few else (_MOST - _KEPT,",
        "(_MOST, _MOST_BYTES) if True else (_MOST - _KEPT,",
    ),
    longest(
        "nobody has the room that is kept", "(_MOST, _MOST_BYTES) if are_few else", "(_MOST, _MOST_BYTES) if False else"
    ),
    fed("lines of other types wait for a flood", " or not self._line.has_only(tenant, jobtype):", ":"),
    fed("options of lines that follow are lost", "        if any(map(_ATTRIBUTES_READ, records)) or", "        if"),
    fed("what lines follow is lost", " or any(map(_NOTE_READ, records)):", ":"),
    fed(
        "lines of an earlier life start uncounted", "straight is None or not self._knows_all or", "straight is None or"
    ),
    fed_way(
        "other daemons see nothing of a flood",
        "            and self._waiting.may_follow(lines)\n",
        "",
    ),
    fed_way(
        "a flood stands still when its gate grows old",
        "            if self._gates.ask(jobtype) is not None:\n",
        "            if self._gates._known.get(jobtype) is not None:\n",
    ),
    fed_way(
        "a flood stays on the long way",
        '        if self._mode != "off" and self._is_alone():\n            await self._pause',
        "        if False:\n            await self._pause",
    ),
    pause(
        "the reader brings all at once",
        "while (jobtype := next_type()) is not None and self._is_full(jobtype):",
        "while (jobtype := next_type()) == 1:",
    ),
    rooms(
        "others wait for room with a flood",
        "        if self._is_wanted or self._line.is_mixed or",
        "        if self._is_wanted or",
    ),
    beside(
        "an urgent job waits behind the lines of its type", "kind = SEVERAL if is_urgent else jobtype", "kind = jobtype"
    ),
    beside("a slow flood fills the journal", "            if self._journal.is_filling:", "            if False:"),
    beside_way(
        "an urgent job waits behind those in memory",
        "or (is_urgent and jobtype in self._waiting):",
        "or False:",
    ),
    beside_way(
        "what waits in memory fills the journal",
        "self._followers.jobtypes]:\n            self._return(jobtype)\n",
        "self._followers.jobtypes]:\n            pass\n",
    ),
    beside_way(
        "what others run waits for what runs here",
        "        return is_open and self._intake",
        "        return self._intake",
    ),
    flushes("what a flush takes from memory is put there again", "self or self._under_way.keys()", "self or set()"),
    flushes("a flush waits for the flood of another tenant", "(self._of_one, passed)", "(self._of_one, read)"),
    longest(
        "a slow flood stays in memory",
        "        return min(until_s, self._clock.monotonic_s() + _LONGEST_S - age_s)",
        "        return until_s",
    ),
    board("a flood that runs from the journal is not on the board", "    if not unseen:\n", "    if True:\n"),
    offers(
        "who comes due waits behind a flood of its type",
        "            self._straight.give_way(",
        "            (lambda *_, **__: 0)(",
    ),
    lists(
        "a list of a slow store is empty",
        "        if page.records:\n            return page\n        await bring(service, tenant)  # a slow store has none of them by then\n",
        "        return page\n",
    ),
    in_bulk(
        "what is known is counted again",
        "            rows = [row for row in zip(*mine, strict=True) if row[0].id in new]",
        "            rows = list(zip(*mine, strict=True))",
    ),
    feeder(
        "the age of what waits for room is not known", "            self._oldest_ms = now_ms\n", "            pass\n"
    ),
    fed(
        "what comes back is of no type",
        "self._line.enter(tenant_of(jobtype), 1, jobtype)",
        "self._line.enter(tenant_of(jobtype), 1)",
    ),
    lists("a list shows nothing of a flood", "where.state in _IN_A_FLOOD and cursor is None", "False"),
    turns(
        "a slot that comes free stays free while jobs wait in memory",
        "self._wants_look or self._policy.has_candidates or",
        "self._wants_look or",
        tests="tests/service/test_straight.py",
    ),
    turns(
        "a slot that comes free stays free while jobs wait in the store",
        "if self._wants_look or self._policy",
        "if self._policy",
        tests="tests/service/test_straight.py",
    ),
    turns(
        "many batches begin in a turn",
        " and not self._turns.take(most := self._courtesy.step(tenant, most)):",
        " and False:",
    ),
    turns(
        "batches that are no larger than a short step begin together",
        "            if self._courtesy.is_asked_of(tenant) and not",
        "            if self._courtesy.is_asked_of(tenant) and most >= 250 and not",
    ),
    courtesy("a job now and then makes steps as short as a series does", "elif now_s - since_s > _SERIES_S:", "else:"),
    courtesy("a series never makes steps as short as makes sense", "> _SERIES_S:", "> 1e9:"),
    courtesy("a series goes on whatever pause is in it", "        if now_s - last_s > _PAUSE_S:", "        if False:"),
    courtesy("all tenants that ever came are remembered", "            self._series.clear()", "            pass"),
]
