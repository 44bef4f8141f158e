"""The grammar of names, and that its copies in the sandbox are the same."""

from pathlib import Path

import pytest

import handlers.bootstraps
from vocabulary.names import TYPE, is_jobtype, is_tenant, is_type, jobtype_of, tenant_of, type_of

BOOTSTRAPS = Path(handlers.bootstraps.__file__).parent


@pytest.mark.parametrize("name", ["python.py", "php.php", "node.js"])
def test_a_bootstrap_has_the_grammar_of_types_word_for_word(name: str) -> None:
    assert TYPE in (BOOTSTRAPS / name).read_text()


def test_a_jobtype_is_a_tenant_and_a_type() -> None:
    assert jobtype_of("acme_1", "resize-image") == "acme_1-resize-image"
    assert tenant_of("acme_1-resize-image") == "acme_1"
    assert type_of("acme_1-resize-image") == "resize-image"


@pytest.mark.parametrize("tenant", ["a", "9", "a" * 32, "a_b", "", "A", "_a", "a" * 33, "a\n", "ä"])
@pytest.mark.parametrize("name", ["x", "X" * 127, "a-b.c:d_e", "", "-x", "x" * 128, "x\n", "x y", "x|y", "é"])
def test_a_jobtype_is_well_formed_if_both_are(tenant: str, name: str) -> None:
    assert is_jobtype(jobtype_of(tenant, name)) == (is_tenant(tenant) and is_type(name))
