"""Which job another one follows: its result was passed on to that one (`then` and `on_failure` of a handler).

In the options of a job it is `{"chain":3,"follows":{"id":"…","type":"…","code":"…"}}`, chain being the number of
results that were passed on in a row. Where a batch of jobs has its options in common, as in the journal, it is a note
to each of them: `id type code`. None of the three has a blank, or anything that JSON would escape.

Options are a tenant's to say, too, so what is read from them is no proof: it names a job, and who wants to see that one
has to be allowed to.
"""

import re
from typing import Final, NamedTuple

from vocabulary.names import JOB_ID, TYPE
from vocabulary.states import Code

_CODES: Final = f"{Code.OK}|{Code.FAILED}|{Code.ABANDONED}"
_OPTIONS: Final = re.compile(
    rf'\{{"chain":\d{{1,9}},"follows":\{{"id":"({JOB_ID})","type":"({TYPE})","code":"({_CODES})"\}}\}}', re.ASCII
)
"""As `with_origin` writes them: a store returns options as they were given. To read JSON would take five times as
long, for each job of a flood."""


class Origin(NamedTuple):
    id: str
    type: str
    code: str
    """How it ended."""

    @property
    def note(self) -> str:
        return " ".join(self)


def with_origin(options: str, note: str) -> str:
    """The options of a job, of those that it shares with others (`{"chain":3}`) and the note about its origin."""
    job_id, type_name, code = note.split(" ")
    return f'{options[:-1]},"follows":{{"id":"{job_id}","type":"{type_name}","code":"{code}"}}}}'


def origin_of(options: str) -> Origin | None:
    """None if the job follows none."""
    found = _OPTIONS.fullmatch(options)
    return None if found is None else Origin(*found.groups())
