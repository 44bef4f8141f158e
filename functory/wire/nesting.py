"""How deeply a JSON value that a tenant sent is nested. One that can just be read here may be too deep elsewhere."""

from typing import Any, Final

MOST_LEVELS: Final = 100


def is_too_deep(value: Any) -> bool:
    """Whether there are more than MOST_LEVELS of objects and arrays in each other."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_LEVELS):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True
