"""The parameters of a command, checked: each is what it must be, or a Refusal names it and says what it must be.

An empty value counts as none, as in the original.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from functory.bedrock.refusals import Refusal, missing, wrong
from functory.web.http.json_faults import why_not_json
from vocabulary.names import is_type

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_TRUE: Final = {"true": True, "1": True, "false": False, "0": False, "": False}
PRIORITIES: Final = {"0": 0, "500": 500, "1000": 1000}


class Parameters:
    def __init__(self, given: Mapping[str, str]) -> None:
        """Names are in lower case."""
        self._given = given

    def text(self, name: str, max_chars: int = 1000) -> str:
        """Empty if it is not given."""
        value = self._given.get(name.lower(), "")
        if len(value) > max_chars:
            raise wrong(name, f"has {len(value)} characters; at most {max_chars} are possible")
        return value

    def number(self, name: str, least: int, most: int = 10**18) -> int | None:
        value = self.text(name, 100)
        if not value:
            return None
        if _NUMBER.fullmatch(value) is None or not least <= int(value) <= most:
            bounds = f"of {least} or more" if most >= 10**18 else f"between {least} and {most}"
            raise wrong(name, f"must be a whole number {bounds}")
        return int(value)

    def job_number(self, name: str = "jobID") -> int:
        number = self.number(name, 1)
        if number is None:
            raise missing(name)
        return number

    def is_true(self, name: str) -> bool:
        value = _TRUE.get(self.text(name, 100).lower())
        if value is None:
            raise wrong(name, "must be true or false")
        return value

    def type_name(self) -> str:
        """The name of a job, which is its type."""
        name = self.text("name", 1000)
        if not name:
            raise missing("name")
        if not is_type(name):
            raise wrong("name", "must be a letter or digit, then up to 126 of letters, digits and _ . : -")
        return name

    def priority(self) -> int | None:
        text = self.text("jobPriority", 100) or self.text("priority", 100)
        if text and text not in PRIORITIES:
            raise Refusal(402, "Invalid priority value: it must be 0, 500 or 1000")
        return PRIORITIES.get(text)

    def data(self) -> bytes | None:
        """The data of a job: JSON, an object or an array."""
        text = self._given.get("data", "").strip().encode()
        if not text:
            return None
        if text[:1] not in (b"{", b"["):
            raise Refusal(402, "Data is not a valid JSON object or array")
        try:
            _ANYTHING.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = why_not_json(text, error)
            raise Refusal(402, f"Data is not a valid JSON object or array: {why}") from None
        return text
