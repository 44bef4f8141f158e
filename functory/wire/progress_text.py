"""What a job says of its progress, as one line for people. It is still the tenant's text: show it as inert."""

import json
from typing import Final

_BAR_CHARS: Final = 30
_MOST: Final = 1e15
"""What is more, or no number at all, is no percentage."""


def progress_text(progress: object) -> str:
    """A number is a percentage, and shown as a bar; a text as it is; anything else as JSON."""
    if isinstance(progress, int | float) and not isinstance(progress, bool) and abs(progress) < _MOST:
        filled = round(_BAR_CHARS * min(max(progress / 100, 0.0), 1.0))
        return f"{'█' * filled}{'░' * (_BAR_CHARS - filled)} {progress:g} %"
    return progress if isinstance(progress, str) else json.dumps(progress)
