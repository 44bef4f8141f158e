"""What one tenant makes large holds up the event loop, or what was cut into steps for that is not what it was."""

from tests.mutants.mutant import Mutant, in_file

large = in_file("functory/intake/backlog.py", "tests/service/test_large_writes.py")
split = in_file("functory/web/api/submission.py", "tests/unit/web/test_split_bodies.py")

MUTANTS: list[Mutant] = [
    large("many lines are looked at in one go", "if is_much(count, size_bytes) else lines", "if False else lines"),
    large(
        "lines do not count while they are looked at", "        self._on_their_way.add(tenant, count)  #", "        #"
    ),
    large(
        "lines that are refused count for ever",
        "        except BaseException:\n            self._on_their_way.add(tenant, -count)\n",
        "        except BaseException:\n",
    ),
    split("a large body is split in one go", "turns.slices(_pieces(body))", "turns.slices([body])"),
    split(
        "a slice of a body ends within a line",
        'body.find(b"\\n", start + SPLIT_BYTES) + 1 or len(body)',
        "start + SPLIT_BYTES",
    ),
]
