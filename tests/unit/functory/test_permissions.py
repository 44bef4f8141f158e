"""What a handler keeps of what it asks for, when its tenant's limits have changed since it was registered."""

import pytest

from functory.execution.tenant_book import Allowance, permitted
from handlers.hosts import parse_patterns
from handlers.model import Handler


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (None, ("api.example.org", "*.partner.example")),
        ("*", ("api.example.org", "*.partner.example")),
        ("*.example.org", ("api.example.org",)),
        ("*.example.org, files.partner.example", ("api.example.org",)),
        ("", ("nowhere.invalid",)),  # it still has the proxy, which says what is refused
    ],
)
def test_hosts_are_narrowed_to_the_tenants_limit(limit: str | None, kept: tuple[str, ...]) -> None:
    handler = Handler("python", "pass", hosts=("api.example.org", "*.partner.example"))
    allowance = Allowance(hosts=None if limit is None else parse_patterns(limit))
    assert permitted(handler, allowance).hosts == kept


def test_what_has_no_hosts_stays_as_it_is() -> None:
    handler = Handler("python", "pass")
    assert permitted(handler, Allowance(hosts=())) is handler
