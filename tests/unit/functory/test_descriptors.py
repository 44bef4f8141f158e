"""A daemon may have as many files open as its operator lets it."""

import resource

import pytest

from functory.daemon.descriptors import allow_descriptors

EVERYTHING = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (1024, 524_288, (65_536, 524_288)),
        (1024, EVERYTHING, (65_536, EVERYTHING)),
        (1024, 4096, (4096, 4096)),
        (4096, 4096, None),
        (100_000, 524_288, None),
        (EVERYTHING, EVERYTHING, None),
    ],
)
def test_the_soft_limit_is_raised_and_never_lowered(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: tuple[int, int] | None
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    allow_descriptors()
    assert made == ([then] if then else [])
