"""SQLite: numbered jobs and their consumers."""

from tests.mutants.mutant import Mutant, in_file

window = in_file(
    "store/sqlite/queue/window.py",
    "tests/contract/store/test_indexed.py tests/contract/store/test_consumers.py -k sqlite",
)
consumers = in_file("store/sqlite/records/consumers.py", "tests/contract/store/test_consumers.py -k sqlite")

MUTANTS: list[Mutant] = [
    window(
        "an index passes a failed job",
        "        if code != CODE_NUMBER[Code.OK] and not skip_failed:",
        "        if False:",
    ),
    window(
        "a job beyond the window is not held",
        "number in windows and seq > windows[number]",
        "False",
    ),
    window(
        "progress passes a job that is not over",
        "        if state != State.ARCHIVED:\n            return seq - 1, None\n",
        "        if state != State.ARCHIVED:\n            continue\n",
    ),
    window(
        "what is let in is still counted as held",
        "    tx.tally.blocked(number, -counts.total())\n",
        "",
    ),
    window(
        "a child of a running parent is let in",
        "state = {State.HELD} AND parent IS NULL AND schedule",
        "state = {State.HELD} AND schedule",
    ),
    consumers(
        "a former leader moves the window",
        "consumer.token != token or ",
        "",
    ),
    consumers(
        "a number is given to a second job",
        "    if found.head >= seq:\n        return False\n",
        "",
    ),
    consumers(
        "a leader that is wrong starts more",
        "        released = max(before or 0, processed)\n",
        "        pass\n",
    ),
    consumers(
        "two lead at once",
        "(until <= ?2 OR until > ?3)",
        "(until <= ?2 OR until < ?3)",
    ),
]
