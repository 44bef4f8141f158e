"""The last minutes in the fewest buckets: the store keeps minutes and hours, and an hour is sixty minutes.

Pure. Most of an hour is read as its one bucket, minus the few minutes at its start that do not belong.
"""

from store.values.scoreboard import HOUR_MS, MINUTE_MS, Span


def last_minutes(now_ms: int, minutes: int) -> list[Span]:
    """Spans that sum up to the last `minutes` minutes, this one included; at most an hour. Never over
    32 buckets a type."""
    first_ms = (now_ms // MINUTE_MS - minutes + 1) * MINUTE_MS
    hour_ms = now_ms // HOUR_MS * HOUR_MS
    if first_ms >= hour_ms:
        return _rest_of_hour(hour_ms, first_ms, now_ms + 1)
    return [*_rest_of_hour(hour_ms - HOUR_MS, first_ms, hour_ms), *_rest_of_hour(hour_ms, hour_ms, now_ms + 1)]


def _rest_of_hour(hour_ms: int, first_ms: int, until_ms: int) -> list[Span]:
    """From a minute to the end of its hour, or to now. Either minute by minute, or as the whole hour minus what is
    before: whichever reads less."""
    if until_ms - first_ms <= MINUTE_MS + first_ms - hour_ms:
        return [Span(1, MINUTE_MS, first_ms, until_ms)]
    spans = [Span(1, HOUR_MS, hour_ms, hour_ms + 1)]
    if first_ms > hour_ms:
        spans.append(Span(-1, MINUTE_MS, hour_ms, first_ms))
    return spans
