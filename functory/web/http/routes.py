"""Routes by declaration. A route is a function. Its decorator says where it is and who may call it; its annotations say
what it takes (`query`, `body`) and what it returns. Validation and `/openapi.json` are made from these.

    @routes.add("GET", "/{tenant}/job/{id}", scope="read", summary="One job")
    async def get_job(call: Call, query: JobQuery) -> Job: ...
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from functory.wire.scopes import Scope

Access = Scope | Literal["any", "webhook"] | None
"""The scope that a key needs; `any` for any good key; `webhook` for no key, but what the webhook in the path asks for;
None for no key at all."""

RouteCall = Callable[..., Awaitable[Any]]
Weigh = Callable[[bytes], int]
_F = TypeVar("_F", bound=RouteCall)


@dataclass(frozen=True, slots=True)
class Route:
    """raw: content types of bodies that the function reads itself. progress: clients may ask for its steps as
    events. weigh: about how many bytes of memory a body takes when it is decoded and worked on, if they can be many."""

    method: str
    path: str
    call: RouteCall
    scope: Access
    summary: str
    status: int
    answer: Any
    query: Any
    body: Any
    raw: tuple[str, ...]
    progress: bool
    weigh: Weigh | None

    @property
    def is_of_tenant(self) -> bool:
        return self.path.startswith("/{tenant}/")


class Routes:
    """The routes of one module, in the order in which they are matched."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        scope: Access,
        summary: str,
        status: int = 200,
        answer: Any = None,
        raw: tuple[str, ...] = (),
        progress: bool = False,
        weigh: Weigh | None = None,
    ) -> Callable[[_F], _F]:
        """`answer` names the type for functions that return a finished response."""

        def declare(call: _F) -> _F:
            hints = get_type_hints(call)
            found = answer if answer is not None else hints.get("return")
            self.all.append(
                Route(
                    method,
                    path,
                    call,
                    scope,
                    summary,
                    status,
                    found,
                    hints.get("query"),
                    hints.get("body"),
                    raw,
                    progress,
                    weigh,
                )
            )
            return call

        return declare
