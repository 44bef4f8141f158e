"""Which hosts a page is served under, and which origins may send it a form.

A browser that was lured to a name that an attacker points at this service (DNS rebinding) sends that name as Host. So
pages are served only under `public_url`, addresses and localhost. A form from another site comes with that site's
Origin, or with Sec-Fetch-Site; it is refused before its token is looked at.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from functory.errors import Forbidden, UnknownHost

_OWN: Final = frozenset({"same-origin", "none"})


class Place(NamedTuple):
    """The place at which the browser believes to be."""

    origin: str
    is_secure: bool
    is_loopback: bool


class AllowedOrigins:
    def __init__(self, public_url: str, listen_host: str) -> None:
        public = urlsplit(public_url)
        self._public = public.netloc.lower()
        self._is_secure = public.scheme == "https"
        self._names = frozenset({"localhost", listen_host.lower()})

    def place(self, host: str) -> Place:
        """Raises UnknownHost for a name that is not configured as ours."""
        netloc = host.strip().lower()
        if self._public and netloc == self._public:
            return Place(f"{'https' if self._is_secure else 'http'}://{netloc}", self._is_secure, False)
        name = _host_name(netloc)
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            address = None
        if address is None and name not in self._names:
            raise UnknownHost(
                f"the pages are not served under the name {name[:80]!r}: the operator can set public_url to it"
            )
        is_loopback = name == "localhost" or (address is not None and address.is_loopback)
        return Place(f"http://{netloc}", False, is_loopback)

    def check_origin(self, place: Place, headers: Mapping[str, str]) -> None:
        """Check a request that changes something. Raises Forbidden.

        Our pages send no referrer, and then browsers send Origin: null even to the same site. Sec-Fetch-Site tells
        these apart from others where the browser sends it; the form's token does so everywhere.
        """
        fetched_from = headers.get("Sec-Fetch-Site")
        if fetched_from is not None and fetched_from not in _OWN:
            raise Forbidden("this form came from another site: open the page here and send it again")
        origin = headers.get("Origin")
        if origin not in {None, "null", place.origin}:
            raise Forbidden("this form came from another origin: open the page here and send it again")


def _host_name(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or "?"
    except ValueError:
        return "?"
