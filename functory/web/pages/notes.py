"""What a page says after a form was sent: a word in the address, and our own sentence for it. Never a caller's text."""

from typing import Final

NOTES: Final = {
    "signed_out": "You are signed out.",
    "saved": "The new version is in force. Jobs that start from now on run it.",
    "unchanged": "Nothing changed: this is what is in force already.",
    "rolled_back": "That version is in force again, as a new one.",
    "deleted_handler": "The handler is deleted. Jobs of the type wait until there is one again.",
    "cancelled": "The job is cancelled.",
    "retried": "The job is queued again.",
    "paused": "Paused. What runs goes on; nothing more is started.",
    "resumed": "Resumed.",
    "replaying": "The jobs are queued again.",
    "nothing_to_replay": "No job fits: nothing was queued.",
    "changed": "Changed.",
    "tenant_created": "The tenant is created. Make a key for it, and hand it over.",
    "key_revoked": "The key is revoked, and all sessions that began with it have ended.",
}
