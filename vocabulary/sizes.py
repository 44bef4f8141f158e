"""Units of sizes in bytes."""

from typing import Final

MIB: Final = 1 << 20
"""Messages call it MB. In a setting MB is 10^6 bytes, and this is MiB."""
