"""What a page says after a form was sent: a key in the address, and our own sentence for it. Never a caller's text."""

from typing import Final

NOTES: Final = {
    "signed_out": "You are signed out.",
    "saved": "Saved and activated. Jobs that start from now on use it.",
    "unchanged": "No changes: this version is already active.",
    "rolled_back": "The older version is active again, as a new version.",
    "cancelled": "Job cancelled.",
    "posted": "Job posted.",
    "retried": "Job queued.",
    "paused": "Paused. Running jobs finish; no new ones start.",
    "schedule_paused": "Paused. A round that has begun goes on; no new one begins.",
    "resumed": "Resumed.",
    "started": "Started.",
    "stopped": "Stopped. Jobs that are in work finish; no new ones are let into the queue.",
    "drained": "The worker gets no more jobs. It keeps those that it has.",
    "undrained": "The worker gets jobs again.",
    "replaying": "Jobs queued again.",
    "jobs_cancelled": "Jobs cancelled. Below is what still matches.",
    "jobs_deleted": "Jobs deleted. Below is what still matches.",
    "nothing_matched": "No job matches any more; nothing was changed.",
    "nothing_to_replay": "No job matches; nothing was queued.",
    "secret_set": "Secret set. The next batch uses it.",
    "secret_deleted": "Secret deleted.",
    "changed": "Saved.",
    "tenant_created": "Tenant created. Now create a key for it.",
    "key_revoked": "Key revoked. All sessions that used it have ended.",
}
