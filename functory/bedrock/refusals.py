"""What is wrong, as a number and a text of the protocol.

401 not JSON, or no good key; 402 a parameter is missing or wrong; 403 not allowed; 404 no such job; 405 not in this
state; 429 over a limit; 430 no such command; 500 and 503 are our own.
"""

from typing import Final

from functory.bedrock.messages import Answer
from functory.bedrock.parser import Malformed
from functory.web.http.answers import describe_error

_NUMBERS: Final = {400: 401, 422: 402, 413: 402, 409: 405, 408: 405, 507: 503}
"""From the status over HTTP, where the protocol has another number."""


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def missing(name: str) -> Refusal:
    return Refusal(402, f"Missing {name}")


def wrong(name: str, what: str) -> Refusal:
    return Refusal(402, f"{name}: {what}")


def no_job() -> Refusal:
    return Refusal(404, "No job with this jobID")


def answer_of(error: Exception, request_id: str, client: str) -> Answer:
    """The answer for anything that a command raised. Our own faults are logged, and their text is kept."""
    if isinstance(error, Refusal | Malformed):
        return Answer(error.status, str(error))
    described = describe_error(error, request_id, client)
    return Answer(_NUMBERS.get(described.status, described.status), described.message)
