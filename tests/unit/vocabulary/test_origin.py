"""Which job another one follows: written into its options, and read from nothing else."""

import json

import pytest

from vocabulary.origin import Origin, origin_of, with_origin

LONGEST = Origin("i" * 64, "t" * 127, "abandoned")


@pytest.mark.parametrize("origin", [Origin("20261114T235959123Z-a7-00001f", "a.b:c-d_e", "failed"), LONGEST])
def test_what_is_written_is_json_and_is_read(origin: Origin) -> None:
    options = with_origin('{"chain":100}', origin.note)
    assert json.loads(options) == {"chain": 100, "follows": origin._asdict()}
    assert origin_of(options) == origin


@pytest.mark.parametrize(
    "said",
    [
        {"id": "j1", "type": "a", "code": "retry"},
        {"id": "../../zeta/job/j1", "type": "a", "code": "ok"},
        {"id": "j1", "type": "a b", "code": "ok"},
        {"id": "j" * 65, "type": "a", "code": "ok"},
        {"id": "j1\n", "type": "a", "code": "ok"},
        {"id": "j1", "type": "a"},
        {"id": 1, "type": "a", "code": "ok"},
        "j1 a ok",
        None,
    ],
)
def test_options_that_a_tenant_made_up_are_options_and_no_more(said: object) -> None:
    assert origin_of(json.dumps({"chain": 1, "follows": said}, separators=(",", ":"))) is None


@pytest.mark.parametrize("options", ["", "{}", '{"chain":3}', "[" * 10_000, '{"chain":1,"follows":{'])
def test_most_options_say_nothing_of_it(options: str) -> None:
    assert origin_of(options) is None
