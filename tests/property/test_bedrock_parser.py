"""The parser of the Bedrock protocol: any bytes in any pieces, and every request that is well formed."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from functory.bedrock.commands import WITH_DATA
from functory.bedrock.messages import Answer, Request, one_line, render
from functory.bedrock.parser import IN_JSON, Malformed, Parser
from functory.bedrock.refusals import Refusal
from functory.bedrock.select import parse_select
from functory.bedrock.settings import BedrockSettings

SMALL = BedrockSettings(max_head_bytes=300, max_body_bytes=200, max_small_body_bytes=100)
LINES = st.sampled_from(
    [
        b"GetJob",
        b"name: foo",
        b"",
        b"\r",
        b"POST /GetJob?a=b HTTP/1.1",
        b"Content-Length: 3",
        b"content-length: 1e3",
        b"a",
    ]
)
BYTES = st.one_of(st.binary(max_size=700), st.lists(LINES, max_size=12).map(b"\n".join))
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,10}", fullmatch=True)
VALUES = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20).map(str.strip)
RESERVED = {"content-length", "transfer-encoding", "connection"}
PARAMETERS = st.dictionaries(NAMES.filter(lambda name: name.lower() not in RESERVED), VALUES, max_size=5)


def read(data: bytes, cuts: list[int], settings: BedrockSettings = SMALL) -> tuple[list[Request], str]:
    """All requests of some bytes that come in pieces, and what is said of the rest."""
    parser = Parser(settings, WITH_DATA)
    requests: list[Request] = []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        parser.feed(data[start:end])
        try:
            while (request := parser.next()) is not None:
                requests.append(request)
        except Malformed as error:
            return requests, str(error)
        assert parser.size_bytes <= settings.max_head_bytes + settings.max_body_bytes + end - start
    return requests, ""


@given(BYTES, st.lists(st.integers(min_value=0), max_size=8))
def test_the_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == read(data, [])


@given(BYTES)
def test_byte_by_byte_makes_no_difference_either(data: bytes) -> None:
    assert read(data, list(range(len(data)))) == read(data, [])


@given(st.lists(st.tuples(PARAMETERS, st.sampled_from([b"\n", b"\r\n"]), st.booleans()), max_size=4))
def test_what_is_well_formed_is_read_as_it_was_meant(sent: list[tuple[dict[str, str], bytes, bool]]) -> None:
    data = b""
    meant = []
    for parameters, line_end, in_body in sent:
        unlike = {name.lower(): (name, value) for name, value in parameters.items()}
        fields = dict(unlike.values())
        if in_body:
            fields = dict(zip(IN_JSON, fields.values(), strict=False))
        body = json.dumps({"unknown": [{}], **fields}).encode() if in_body else b""
        lines = ["CreateJob", *([] if in_body else [f"{name}: {value}" for name, value in fields.items()])]
        lines += [f"Content-Length: {len(body)}"] if in_body else []
        data += line_end.join(line.encode() for line in (*lines, "", "")) + body
        meant.append(("CreateJob", {name.lower(): value for name, value in fields.items()}, line_end))
    requests, trouble = read(data, [], BedrockSettings())
    assert trouble == ""
    found = [
        (it.command, {k: v for k, v in it.parameters.items() if k != "content-length"}, it.line_end) for it in requests
    ]
    assert found == meant


@given(st.text(max_size=500), st.integers(100, 599), st.binary(max_size=50), st.booleans())
def test_an_answer_is_one_head_and_its_body_whatever_it_says(
    text: str, status: int, body: bytes, is_http: bool
) -> None:
    shown = render(Answer(status, text, body), Request("x", {}, is_http=is_http))
    head, _, rest = shown.partition(b"\n\n")
    assert rest == body
    assert head.count(b"\n") == (4 if is_http and body else 3 if is_http else bool(body))
    assert one_line(text).isprintable() or not text


WORDS = [
    "select",
    "*",
    "from",
    "jobs",
    ";",
    "where",
    "state",
    "=",
    "'a'",
    "limit",
    "1",
    "and",
    "order",
    "by",
    "in",
    "(",
]
STATEMENTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))


@given(STATEMENTS)
def test_a_statement_is_understood_or_refused(text: str) -> None:
    try:
        understood = parse_select(text) is not None
    except Refusal as refusal:
        understood = refusal.status != 402
    assert understood <= text.lower().lstrip().startswith("select")
