"""The table of languages is the only one: what cannot be made from it is compared with it."""

from typing import get_args, get_type_hints

from functory.wire.handlers import HandlerBody
from handlers.languages import LANGUAGES


def test_the_wire_names_the_languages_of_the_table() -> None:
    assert get_args(get_type_hints(HandlerBody)["lang"]) == tuple(LANGUAGES)


def test_a_suffix_is_of_one_language() -> None:
    for suffixes in ([row.suffixes for row in LANGUAGES.values()], [row.folder_suffixes for row in LANGUAGES.values()]):
        listed = [suffix for each in suffixes for suffix in each]
        assert len(listed) == len(set(listed))
