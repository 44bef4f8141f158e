"""All acts, in the order in which they are performed."""

from typing import Final

from functory.hostile.act import Act
from functory.hostile.context_acts import CONTEXT_ACTS
from functory.hostile.http_acts import HTTP_ACTS

ACTS: Final[tuple[Act, ...]] = (*CONTEXT_ACTS, *HTTP_ACTS)
