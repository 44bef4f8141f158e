"""Why a text is not JSON: half of a surrogate pair is named as such, wherever it stands."""

import msgspec
import pytest

from functory.web.http.json_faults import why_not_json


def fault_of(text: bytes) -> str:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)) as caught:
        msgspec.json.decode(text)
    return why_not_json(text, caught.value)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (rb'{"payload":"\ud800"}', r"\ud800"),
        (rb'{"payload":"\uD800 and more of it"}', r"\uD800"),
        (rb'["\ud83d\ude00", "\udc00"]', r"\udc00"),
        (rb'"\ud83d\ud83d\ude00"', r"\ud83d"),
        (rb'"\\\ud800"', r"\ud800"),
    ],
)
def test_half_of_a_pair_is_named(text: bytes, half: str) -> None:
    assert fault_of(text).startswith(f"{half} is half of a surrogate pair")


@pytest.mark.parametrize("text", [b'{"a":', rb'["\\ud800"', rb'["\ud83d\ude00"', b'"\xff"', b""])
def test_anything_else_is_said_by_the_decoder(text: bytes) -> None:
    assert "surrogate" not in fault_of(text)
