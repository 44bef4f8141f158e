"""The statements that `Query` knows: `select` from jobs, with simple filters. Read by hand; no database ever sees them.

    select * from jobs;
    select jobID, state from jobs where name glob 'mail*' and state = 'QUEUED' order by jobID desc limit 10;
    select count(*) from jobs where state in ('QUEUED', 'RUNNING');

Words and names of columns are in any letter case, texts are not.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from functory.bedrock.refusals import Refusal
from vocabulary.glob import PatternTooLong, check_length, glob_cost, glob_matcher

Value = int | str

ALL: Final = ("created", "jobID", "state", "name", "nextRun", "lastRun", "repeat", "data")
"""The columns of `*`, in this order."""
COLUMNS: Final = (*ALL, "priority", "parentJobID", "retryAfter")
_NUMBERS: Final = frozenset({"jobID", "priority", "parentJobID"})
_BY_NAME: Final = {name.lower(): name for name in COLUMNS}
_TOKEN: Final = re.compile(
    r"\s*(?:('(?:[^']|'')*')|([0-9]{1,18})\b|([A-Za-z_][A-Za-z0-9_]*)|(<=|>=|<>|!=|==|[=<>*,();]))"
)
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "==": eq, "!=": ne, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_MOST_CHARS: Final = 4000
_MOST_CONDITIONS: Final = 20
_MOST_VALUES: Final = 100
_EXAMPLE: Final = "Query knows statements such as: select * from jobs where state = 'QUEUED' order by jobID limit 10;"


class Condition(NamedTuple):
    """One comparison. values are several for `in`."""

    column: str
    operator: str
    values: tuple[Value, ...]

    def test(self) -> Callable[[Any], bool]:
        """Whether it holds for a value, for many values."""
        first = self.values[0]
        if self.operator == "in":
            return self.values.__contains__
        if self.operator == "glob":
            return glob_matcher(str(first))
        compare = _COMPARE[self.operator]
        return lambda value: compare(value, first)

    @property
    def cost(self) -> int:
        """Of one test, for those who count their work."""
        return glob_cost(str(self.values[0])) if self.operator == "glob" else len(self.values)


class Select(NamedTuple):
    columns: tuple[str, ...]
    """Empty: their number is asked for."""
    conditions: tuple[Condition, ...] = ()
    order_by: str = "jobID"
    is_descending: bool = False
    limit: int | None = None

    def fixed(self, column: str) -> tuple[Value, ...] | None:
        """The values that a column can only have; None: any."""
        found: set[Value] | None = None
        for condition in self.conditions:
            if condition.column == column and condition.operator in {"=", "==", "in"}:
                found = set(condition.values) if found is None else found & set(condition.values)
        return None if found is None else tuple(found)

    @property
    def needs(self) -> frozenset[str]:
        """The columns that decide which rows are answered."""
        return frozenset({*(condition.column for condition in self.conditions), self.order_by})


def parse_select(text: str) -> Select:
    """Raises Refusal."""
    if len(text) > _MOST_CHARS:
        raise Refusal(402, f"query: is longer than {_MOST_CHARS} characters")
    return _Reader(_tokens(text)).select()


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at, end)
        if found is None:
            raise _unknown(text[at : at + 20].strip())
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


def _unknown(near: str) -> Refusal:
    return Refusal(402, f"query: not understood near {near!r}. {_EXAMPLE}")


class _Reader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def select(self) -> Select:
        self._need("select")
        columns = self._columns()
        self._need("from")
        self._need("jobs")
        conditions: list[Condition] = []
        if self._has("where"):
            conditions.append(self._condition())
            while self._has("and"):
                conditions.append(self._condition())
        order_by, is_descending = "jobID", False
        if self._has("order"):
            self._need("by")
            order_by = self._column()
            is_descending = self._has("desc") or (self._has("asc") and False)
        limit = self._number() if self._has("limit") else None
        self._has(";")
        if self._at < len(self._tokens) or len(conditions) > _MOST_CONDITIONS:
            raise _unknown(self._word())
        if "data" in {order_by, *(condition.column for condition in conditions)}:
            raise Refusal(402, "query: data cannot be filtered or ordered by")
        return Select(columns, tuple(conditions), order_by, is_descending, limit)

    def _columns(self) -> tuple[str, ...]:
        if self._has("*"):
            return ALL
        if self._word().lower() == "count":
            for word in ("count", "(", "*", ")"):
                self._need(word)
            return ()
        columns = [self._column()]
        while self._has(","):
            columns.append(self._column())
        if len(columns) > len(COLUMNS):
            raise _unknown(",")
        return tuple(columns)

    def _condition(self) -> Condition:
        column = self._column()
        operator = self._word().lower()
        self._at += 1
        if operator == "in":
            self._need("(")
            values = [self._value(column)]
            while self._has(","):
                values.append(self._value(column))
                if len(values) > _MOST_VALUES:
                    raise _unknown(",")
            self._need(")")
            return Condition(column, operator, tuple(values))
        if operator not in _COMPARE and (operator != "glob" or column in _NUMBERS):
            raise _unknown(operator)
        value = self._value(column)
        if operator == "glob":
            try:
                check_length(str(value))
            except PatternTooLong as error:
                raise Refusal(402, f"query: {error}") from None
        return Condition(column, operator, (value,))

    def _value(self, column: str) -> Value:
        word = self._word()
        if column in _NUMBERS:
            return self._number()
        if not word.startswith("'"):
            raise Refusal(402, f"query: {column} is compared with a text in quotes, such as 'QUEUED'")
        self._at += 1
        return word[1:-1].replace("''", "'")

    def _number(self) -> int:
        word = self._word()
        if not word.isdecimal():
            raise _unknown(word)
        self._at += 1
        return int(word)

    def _column(self) -> str:
        column = _BY_NAME.get(self._word().lower())
        if column is None:
            raise Refusal(402, f"query: jobs have no column {self._word()[:40]!r}; they have {', '.join(COLUMNS)}")
        self._at += 1
        return column

    def _word(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _has(self, word: str) -> bool:
        if self._word().lower() != word:
            return False
        self._at += 1
        return True

    def _need(self, word: str) -> None:
        if not self._has(word):
            raise _unknown(self._word() or "its end")
