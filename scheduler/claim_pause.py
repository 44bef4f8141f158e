"""How long to wait before a type is claimed again of which jobs wait and a claim found none, or too few: their rate
domain has no token, the cap of their key is reached, or another daemon was quicker.

Where the store says when the next token comes, that is the time, unless others are always quicker. Otherwise it is a
guess.

Ensures: what can be taken at last is taken late by no more than a part of the time it took to come; claims in vain
become fewer and fewer; and no rate makes a type be claimed again and again without a pause.
"""

from typing import Final

LEAST_S: Final = 0.005
REST_S: Final = 0.1
_LONGEST_S: Final = 1.0
"""Also before a token that comes later: a limit may have been changed elsewhere."""
_FIRST_PART: Final = 5
"""Of the time in which claims found nothing, each pause up to REST_S."""
_PART: Final = 20
"""The same for longer pauses, and for those that the store says: very many types without a token, or that share one, do
not keep a daemon busy."""


def pause_s(in_vain_s: float, token_s: float | None = None, *, has_cap: bool = False) -> float:
    """in_vain_s: since when claims of the type find nothing. token_s: after how long a token comes, as the store says.
    has_cap: keys of the type have a cap, and places come free when jobs end elsewhere."""
    guess_s = max(min(max(LEAST_S, in_vain_s / _FIRST_PART), REST_S), min(in_vain_s / _PART, _LONGEST_S))
    if token_s is None:
        return guess_s
    told_s = min(max(LEAST_S, token_s, in_vain_s / _PART), _LONGEST_S)
    return min(told_s, guess_s) if has_cap else told_s
