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
ENDS = "tests/service/test_straight_ends.py"
added_once = in_file("functory/intake/backlog.py", "tests/service/test_added_once.py")
ends = in_file("functory/execution/straight/ends.py", ENDS)

MUTANTS: list[Mutant] = [
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
        "return self._is_clear(jobtype) and not self._in_line(tenant_of(jobtype))",
        "return self._is_clear(jobtype)",
    ),
    following(
        "later ones on the long way overtake who follows",
        "            self._return(jobtype)\n\n    def _wait",
        "            pass\n\n    def _wait",
    ),
    claims(
        "a look that saw half a claim clears the type",
        "                self._outlook.added([pick.jobtype])  # it",
        "                # it",
    ),
    following(
        "who has followed in vain waits for ever",
        "in self._followers.waited(_RETURN_AFTER_S):",
        "in self._followers.waited(1e9):",
    ),
    following("all follow in vain", "            self._followers.tire(jobtype)\n", ""),
    following(
        "a flush forgets who follows", "{**self._waiting, **dict.fromkeys(self._followers.jobtypes)}", "self._waiting"
    ),
    followed_lines(
        "nobody hurries those that others follow",
        "            if self._waiting.get(tenant, 0) > 0:  # somebody follows these\n                self._hurry()\n",
        "",
    ),
    followed_lines("lines on their way past are overtaken", " + self._boarding_of.get(tenant, 0)", ""),
    ends("a job is shown after its end", '            self._troubles.setdefault(job_id, "")\n', "            pass\n"),
    ends(
        "a flush waits for ends that cannot be recorded",
        "            self._troubles.update(dict.fromkeys(ids, str(error)))\n",
        "",
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
]
