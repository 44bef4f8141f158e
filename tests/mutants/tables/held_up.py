"""What one tenant makes large holds up the event loop, or what was cut into steps for that is not what it was."""

from tests.mutants.mutant import Mutant, in_file

large = in_file("functory/intake/backlog.py", "tests/service/test_large_writes.py")
weights = in_file("functory/intake/weights.py", "tests/service/test_large_writes.py")
split = in_file("functory/web/api/submission.py", "tests/unit/web/test_split_bodies.py")

masking = in_file("runner/masking.py", "tests/unit/runner/test_search_accounts.py")
accounts = in_file("runner/search_accounts.py", "tests/unit/runner/test_search_accounts.py")
tree = in_file("runner/form_tree.py", "tests/unit/runner/test_search_accounts.py")
wire = in_file("runner/wire.py", "tests/unit/runner/test_wire.py")
ended = in_file("runner/context.py", "tests/property/test_first_batch.py")
LIVE = "tests/unit/runner/test_live_masker.py"
live = in_file("runner/live_masker.py", LIVE)
live_tree = in_file("runner/form_tree.py", LIVE)
live_log = in_file("runner/raw_log.py", LIVE)

MUTANTS: list[Mutant] = [
    ended("who has ended gets the next batch", "        self.usable = False  # for", "        # for"),
    masking("whoever has used up its share goes on", "not self._searches.wait_s(self._tenant)", "True"),
    masking("many small results are searched in one go", " and masker.steps - begun <= _AT_ONCE_STEPS:", ":"),
    masking("what was searched on the loop is searched again", "return stopped[len(masked) :]", "return stopped"),
    masking(
        "what is searched on the loop costs nothing",
        "        if masker.steps > begun:\n            self._searches.take(self._tenant, masker.steps - begun)\n        self._deliver",
        "        self._deliver",
    ),
    masking(
        "what is searched in a thread costs nothing",
        "            self._searches.take(self._tenant, masker.steps - begun)\n            self._pass_on",
        "            self._pass_on",
    ),
    tree("to look for the rest of a form costs nothing", "        self._most += places\n", "        pass\n"),
    accounts(
        "a share is for all tenants together", "self._paid_s.get(tenant)", "max(self._paid_s.values(), default=None)"
    ),
    accounts("a debt is never forgiven", "min(paid_s, now_s + _SAVED_S + _LONGEST_WAIT_S)", "paid_s"),
    accounts("who owed once is remembered for ever", "if paid_s > now_s}", "if paid_s}"),
    wire("a log is searched however much it takes", "        if not wait_s:\n", "        if True:\n"),
    wire(
        "a log that was left is never read again",
        "        if self._log_open:\n            self._loop.add_reader",
        "        if False:\n            self._loop.add_reader",
    ),
    wire("logs without secrets wait, too", "0.0 if self._log.masker is None else ", ""),
    wire("many tiny new jobs are taken in together", "is_laden = len(data) > _PIECE_BYTES and", "is_laden = False and"),
    wire("plain replies are taken in piece by piece", ' and data.count(b"|") > _MANY_BARS', ""),
    wire(
        "of what was read the rest is lost",
        "(data[:_PIECE_BYTES], data[_PIECE_BYTES:]) if",
        '(data[:_PIECE_BYTES], b"") if',
    ),
    wire("what comes later is taken in before the rest", "data = self._rest or os.read(", "data = os.read("),
    wire(
        "who waited for room is forgotten",
        "            self._listen()\n            self._take_rest_soon()\n",
        "            self._listen()\n",
    ),
    wire("a reader that is ready takes a second piece", "if self._next is not None or self._is", "if self._is"),
    live(
        "what is searched while a job runs costs nothing", "self._searches.take(self._tenant, budget.taken())", "pass"
    ),
    live("logs of whoever has used up its share are searched as ever", "_FEW_STEPS if", "None if"),
    live_tree("looks of whoever has used up its share are free", "        if self._counts_looks:", "        if False:"),
    live_log(
        "new jobs are lost with a log that is too dear",
        "        if self.makes_jobs and b",
        "        text = self.hide(text)\n        if self.makes_jobs and b",
    ),
    large("many lines are looked at in one go", "        if is_much(count, size_bytes):  #", "        if False:  #"),
    large(
        "lines do not count while they are looked at",
        "with self._on_their_way.more(tenant, count), self._bytes_of",
        "with self._bytes_of",
    ),
    weights("lines that are refused count for ever", "            self.add(tenant, -count)", "            pass"),
    split("a large body is split in one go", "turns.slices(_pieces(body))", "turns.slices([body])"),
    split(
        "a slice of a body ends within a line",
        'body.find(b"\\n", start + SPLIT_BYTES) + 1 or len(body)',
        "start + SPLIT_BYTES",
    ),
]
