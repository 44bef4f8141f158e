"""A handler as a context is told of it: the body of LOAD and CHECK."""

from handlers.model import Handler
from runner.limits import ContextLimits
from vocabulary.names import type_of


def spec_of(jobtype: str, handler: Handler, limits: ContextLimits, *, with_before: bool) -> dict[str, object]:
    return {
        "type": type_of(jobtype),
        "body": handler.body,
        "before": handler.before if with_before else "",
        "beforeEach": handler.before_each,
        "afterEach": handler.after_each,
        "returns": handler.returns,
        "secrets": list(handler.secrets),
        "entry": handler.entry,
        "limits": limits.for_child(handler),
    }
