"""What a job says of its progress, as one line for people. It is still the tenant's text: show it as inert."""

import json
from typing import Final

_BAR_CHARS: Final = 30
_MOST: Final = 1e15
"""What is more, or no number at all, is no percentage."""


def percent_of(progress: object) -> float | None:
    """A number as a percentage with one digit after the point; None for anything else."""
    if isinstance(progress, int | float) and not isinstance(progress, bool) and abs(progress) < _MOST:
        return round(float(progress), 1)
    return None


def percent_text(percent: float) -> str:
    return f"{percent:.1f}".removesuffix(".0") + " %"


def progress_text(progress: object) -> str:
    """A percentage as a bar; a text as it is; anything else as JSON."""
    percent = percent_of(progress)
    if percent is not None:
        filled = round(_BAR_CHARS * min(max(percent / 100, 0.0), 1.0))
        return f"{'█' * filled}{'░' * (_BAR_CHARS - filled)} {percent_text(percent)}"
    return progress if isinstance(progress, str) else json.dumps(progress)
