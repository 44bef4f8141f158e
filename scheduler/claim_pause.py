"""How long to wait before a type is claimed again of which jobs wait and a claim found none: their rate domain has no
token, the cap of their key is reached, or another daemon was quicker.

Ensures: what can be taken at last is taken late by no more than a part of the time it took to come, so that a bucket of
one token gives nearly its rate, be that 100 a second or one; and claims in vain become fewer and fewer.
"""

from typing import Final

LEAST_S: Final = 0.005
REST_S: Final = 0.1
_LONGEST_S: Final = 1.0
_FIRST_PART: Final = 5
"""Of the time in which claims found nothing, each pause up to REST_S."""
_PART: Final = 20
"""The same for longer pauses: very many types without a token do not keep a daemon busy."""


def pause_s(in_vain_s: float) -> float:
    """in_vain_s: since when claims of the type find nothing."""
    return max(min(max(LEAST_S, in_vain_s / _FIRST_PART), REST_S), min(in_vain_s / _PART, _LONGEST_S))
