"""The storm's own loop may block: nothing of the product runs in it, and its notes must be written when it says so."""

import pytest


@pytest.fixture(autouse=True)
def blockbuster() -> None:
    """Instead of the one of all other suites."""
