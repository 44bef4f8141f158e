"""Types that had a handler a moment ago, so that not every CreateJob asks the store."""

import time
from typing import Final

_LIFE_S: Final = 5.0
_MOST: Final = 10_000


class KnownTypes:
    def __init__(self) -> None:
        self._until_s: dict[tuple[str, str], float] = {}

    def is_known(self, tenant: str, type_name: str) -> bool:
        return self._until_s.get((tenant, type_name), 0.0) > time.monotonic()

    def keep(self, tenant: str, type_name: str) -> None:
        if len(self._until_s) >= _MOST:
            self._until_s.clear()
        self._until_s[tenant, type_name] = time.monotonic() + _LIFE_S
