"""Whether a delivery is of somebody who has the secret. Comparisons take the same time wherever they differ.

Refusals are read by whoever sent the delivery: they say which header is wrong and how, and name no secret.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Final

from functory.errors import Unauthorized
from functory.webhooks.arrivals import Reason
from functory.webhooks.delivery import Delivery, as_sent
from functory.webhooks.schemes import GITLAB_TOKEN, Signed, read_signed
from functory.webhooks.terms import Terms

TOLERANCE_S: Final = 300
"""How far the time of a signature may be from ours. A delivery that was overheard cannot be sent again for longer."""
TOKEN_QUERY: Final = "token"  # noqa: S105 (the name of a query option)
_BEARER: Final = "bearer "
_MOST_SIGNATURES: Final = 8
"""Senders that replace their key send two."""
_MOST_DIGITS: Final = 15


def check_delivery(terms: Terms, values: Sequence[str], delivery: Delivery, now_ms: int) -> None:
    """values: of the secrets; any will do. Raises Unauthorized."""
    if terms.verify == "none":
        return
    keys = [key for value in values if (key := value.strip())]  # with an empty key anybody can sign
    if terms.verify in {"token", "gitlab"}:
        _check_token(_token_header(terms), keys, delivery)
    else:
        _check_signed(read_signed(terms, delivery), keys, now_ms)


def token_places(terms: Terms) -> tuple[str, str]:
    """The header and the query option in which a token comes; empty where it does not."""
    if terms.verify not in {"token", "gitlab"}:
        return "", ""
    header = _token_header(terms)
    return header.lower(), "" if header else TOKEN_QUERY


def _token_header(terms: Terms) -> str:
    return GITLAB_TOKEN if terms.verify == "gitlab" else terms.header


def _check_token(header: str, keys: Iterable[str], delivery: Delivery) -> None:
    if header:
        place, given = f"the header {header}", delivery.header(header)
        if header.lower() == "authorization" and given.lower().startswith(_BEARER):
            given = given[len(_BEARER) :].strip()
    else:
        place, given = f"?{TOKEN_QUERY}= in the address", "".join(delivery.query.get(TOKEN_QUERY, ())[:1])
    if not given:
        raise _refused("token_missing", f"{place} is missing: the sender must give the webhook's token there")
    if not _is_any(as_sent(given), map(as_sent, keys)):
        raise _refused("token_wrong", f"the token in {place} is not that of the webhook")


def _check_signed(signed: Signed, keys: Iterable[str], now_ms: int) -> None:
    if not signed.signatures:
        raise _refused(
            "signature_missing",
            f"the header {signed.header} has no signature: the sender must sign with the webhook's secret",
        )
    known = [_signature(signed, key) for key in keys]
    fits = [_is_any(_as_compared(signed, given), known) for given in signed.signatures[:_MOST_SIGNATURES]]
    if True not in fits:
        raise _refused(
            "signature_wrong",
            f"the signature in {signed.header} is not that of this body: sender and webhook have different secrets, or"
            " the body was changed on its way",
        )
    if signed.time is not None:
        _check_time(signed.time, now_ms)


def _check_time(time: str, now_ms: int) -> None:
    """Of a signature that fits: so who reads the refusal has the secret."""
    is_time = time.isascii() and time.isdigit() and len(time) <= _MOST_DIGITS
    away_s = abs(now_ms / 1000 - int(time)) if is_time else None
    if away_s is None or away_s > TOLERANCE_S:
        told = "has no time" if away_s is None else f"is {away_s:.0f} s from the time here"
        raise _refused(
            "signature_too_old", f"what was signed {told}, at most {TOLERANCE_S} s are allowed: check both clocks"
        )


def _refused(reason: Reason, message: str) -> Unauthorized:
    return Unauthorized(message, detail={"reason": reason})


def _signature(signed: Signed, key: str) -> bytes:
    made = hmac.new(signed.key_of(key), signed.message, getattr(hashlib, signed.algorithm)).digest()
    return base64.b64encode(made) if signed.digest == "base64" else made.hex().encode()


def _as_compared(signed: Signed, given: str) -> bytes:
    return as_sent(given if signed.digest == "base64" else given.lower())


def _is_any(given: bytes, known: Iterable[bytes]) -> bool:
    """All are compared, so the time does not tell which it was."""
    return True in [hmac.compare_digest(given, one) for one in known]
