"""Requests for the short way of a plain POST, and what is compared of the answers."""

from typing import Any, Final

from tests.support.web import Answer, Site

ADD: Final = "/acme/job/thumb/add"
_OF_THE_MOMENT: Final = frozenset({"date", "x-request-id", "content-length"})


def seen_by_client(answer: Answer) -> tuple[int, dict[str, str], Any]:
    """All but what differs from one request to the next."""
    headers = {name.lower(): text for name, text in answer.headers.items() if name.lower() not in _OF_THE_MOMENT}
    if answer.json is not None and "ids" in answer.json:
        return answer.status, headers, (answer.json["count"], [len(it) for it in answer.json["ids"]])
    return answer.status, headers, answer.json


def request_of(kind: str, site: Site, request_id: str) -> bytes:
    method, path, body = {
        "plain": ("POST", ADD, b"one\ntwo"),
        "query": ("POST", f"{ADD}?ids=no", b"one\ntwo"),
        "empty": ("POST", ADD, b""),
        "health": ("GET", "/healthz", b""),
        "stranger": ("POST", "/other/job/thumb/add", b"x"),
    }[kind]
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.keys['acme']}\r\n"
        f"X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
