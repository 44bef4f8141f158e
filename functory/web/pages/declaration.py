"""Pages by declaration: a function with a path and a scope, which returns a template with its values, or where to go.

    @pages.get("/ui/t/{tenant}/job/{id}", scope="read", live="live/job.html")
    async def show_job(call: PageCall) -> Page: ...

With `live` the page has a second address, `…/~live`, at which that part of it is sent again whenever it changes. Such a
part holds no forms and nothing of a session: it is shared by all who look with the same rights, under the same host.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from aiohttp import web

from functory.wire.scopes import Scope

Access = Scope | Literal["signed_in"] | None
"""The scope that the signed-in key needs; `signed_in` for any session; None for nobody in particular."""


LIVE: Final = "/~live"
"""What the address of a live part ends with. No name has a tilde, so it is nothing else's address."""


class Page(NamedTuple):
    template: str
    values: Mapping[str, Any]
    status: int = 200
    state: tuple[object, ...] = ()
    """All that is shown outside the live part and may change meanwhile. Then the reader's page is loaded again."""


class Go(NamedTuple):
    """A redirect: what every form that changed something returns. `note` is a key of `notices.py`."""

    path: str
    note: str = ""


PageCallable = Callable[..., Awaitable[Page | Go | web.StreamResponse]]
_F = TypeVar("_F", bound=PageCallable)


@dataclass(frozen=True, slots=True)
class PageRoute:
    method: str
    path: str
    call: PageCallable
    scope: Access
    live: str
    progress: bool = False
    """Whether the page's script may ask for the steps as events."""
    form: Callable[..., Awaitable[Page]] | None = None
    """The page that the form is on. It is the answer when the form is refused, and has then what was typed in
    `call.form`; the frame tells why."""
    is_page: bool = True
    """False for the address of a form that leads whoever asks for it to a page."""


class Pages:
    """The pages of one module."""

    def __init__(self) -> None:
        self.all: list[PageRoute] = []

    def get(self, path: str, *, scope: Access, live: str = "", is_page: bool = True) -> Callable[[_F], _F]:
        def declare(call: _F) -> _F:
            self.all.append(PageRoute("GET", path, call, scope, live, is_page=is_page))
            return call

        return declare

    def post(
        self,
        path: str,
        *,
        scope: Access,
        progress: bool = False,
        form: Callable[..., Awaitable[Page]] | None = None,
    ) -> Callable[[_F], _F]:
        """Declare a form's target. It is called only with a form that carries the session's token."""

        def declare(call: _F) -> _F:
            self.all.append(PageRoute("POST", path, call, scope, "", progress, form))
            return call

        return declare
