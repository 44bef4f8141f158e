"""Webhooks of a site, and what others post to them."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any

from tests.support.web import Answer, Site

KEY = "the-key-of-both"
IN = "/acme/in/github"


async def set_webhook(site: Site, name: str = "github", **settings: Any) -> None:
    await site.call("PUT", "/acme/secret/HOOK", json={"value": KEY})
    body = {"type": "build", "verify": "github", "secrets": ["HOOK"]} | settings
    answer = await site.call("PUT", f"/acme/webhook/{name}", json=body)
    assert answer.status == 200, answer.body


async def set_open(site: Site, **settings: Any) -> None:
    """To which anybody may post."""
    await set_webhook(site, verify="none", secrets=[], **settings)


async def deliver(site: Site, body: bytes = b'{"ref": "main"}', *, key: str = KEY, **headers: str) -> Answer:
    signature = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    given = {"X-Hub-Signature-256": signature} | {name.replace("_", "-"): text for name, text in headers.items()}
    return await site.post(IN, key=None, data=body, headers=given)


async def pieces(*texts: bytes) -> AsyncIterator[bytes]:
    """A body whose length nobody says before."""
    for text in texts:
        yield text
