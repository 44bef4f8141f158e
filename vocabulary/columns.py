"""Many values at once: named tuples made of columns, fields taken out of many, many keys out of a mapping.

A batch of jobs is moved in columns, so that the interpreter takes a step for a column and not for each field of each
job; what a loop would do with `job.id` or `Job(...)` tens of thousands of times a second costs more than all else.
"""

from collections.abc import Callable, Iterable, MutableMapping
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeVar

_Value = TypeVar("_Value", bound=tuple[Any, ...])
_Key = TypeVar("_Key")
_Held = TypeVar("_Held")


def make_all(kind: type[_Value], *columns: Iterable[Any]) -> list[_Value]:
    """One value for each row of the columns, which are all the fields of `kind`, in order. As long as the shortest:
    what all rows share comes as `repeat(...)`."""
    # `tuple.__new__` is what the constructor of a named tuple calls.
    return list(map(tuple.__new__, repeat(kind), zip(*columns, strict=False)))


def fields(kind: type[tuple[Any, ...]], *names: str) -> Callable[[tuple[Any, ...]], Any]:
    """Reads these fields of a named tuple, to be mapped over many: one as it is, several as a tuple."""
    known: tuple[str, ...] = vars(kind)["_fields"]
    return itemgetter(*map(known.index, names))


def take_out(mapping: MutableMapping[_Key, _Held], keys: Iterable[_Key]) -> list[_Held]:
    """Remove these keys, those of them that are there. Returns what they held; no key may hold None."""
    return [held for held in map(mapping.pop, keys, repeat(None)) if held is not None]
