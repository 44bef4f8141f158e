"""Secrets in what a context says: every usual form of a value, whole or cut, and nothing else."""

import base64
import json
import os
import shlex
import shutil
import string
import subprocess
import tracemalloc
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

import pytest

from runner.form_search import FormSearch
from runner.form_tree import Budget, TooCostly
from runner.launch import Level
from runner.limits import ContextLimits
from runner.masking import MASK, Masker
from runner.outcome import Stopped
from runner.raw_log import RawLog
from vocabulary.new_job import NewJob

VALUE = 'pa"ss/wörd+42\\x'
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nQDEAAAAAAAAAAAAAAAAA\n-----END KEY-----"


def stopped(result: bytes = b"", **more: Any) -> Stopped:
    one = Stopped("id", "ok", 200, result, b"", 1.0, (), Level.L0)
    return one._replace(**more)


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        json.dumps(VALUE).replace("/", "\\/"),
        repr(VALUE),
        ascii(VALUE),
        repr(VALUE.encode()),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        quote(VALUE, safe="").lower(),
        quote_plus(VALUE).lower(),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(f"user:{VALUE}".encode()).decode(),
        base64.b64encode(f"me:{VALUE}:x".encode()).decode(),
        base64.urlsafe_b64encode(f"u:{VALUE}".encode()).decode(),
    ],
)
def test_the_usual_forms_of_a_value_are_hidden(form: str) -> None:
    masked = Masker([VALUE]).hide(f"before {form} after".encode())
    assert MASK in masked
    assert masked.startswith(b"before ")
    assert masked.endswith(b" after")
    assert b"w\\u00f6rd" not in masked
    assert b"w\\xf6rd" not in masked
    assert b"w\\xc3\\xb6rd" not in masked
    assert "wörd".encode() not in masked


def test_nothing_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most jobs have no log."""
    masker = Masker([VALUE])
    monkeypatch.setattr(FormSearch, "spans", None)
    assert masker.hide_in(stopped()) == stopped()
    assert masker.hide_cut(b"short") == b"short"


AWKWARD = "it's ~5$ (a*b)!"


@pytest.mark.parametrize(
    "form",
    [
        "it's%20~5%24%20(a*b)!",  # encodeURIComponent
        "it's%20~5$%20(a*b)!",  # encodeURI
        "it%27s%20~5$%20(a*b)!",  # new URL(...).href
        "it%27s+%7E5%24+%28a*b%29%21",  # URLSearchParams, java
        "it%27s+%7E5%24+%28a%2Ab%29%21",  # php urlencode
        "it%27s%20~5%24%20%28a%2Ab%29%21",  # php rawurlencode
        "it%27s+%7e5%24+%28a*b%29%21",
        repr({"a": [f'{{"k": "{AWKWARD}"}}']}),
        repr(f'{{"k": "{AWKWARD}"}}'.encode()),
        ascii(f'"ä" {AWKWARD}'),
        r"'it\'s ~5$ (a*b)!'",  # var_export, util.inspect
        shlex.quote(AWKWARD),  # and dash, in what `set` and `export -p` print
        r"'it'\''s ~5$ (a*b)!'",  # bash, and php's escapeshellarg
        '"it\'s ~5\\$ (a*b)!"',  # bash's `export -p`
    ],
)
def test_the_forms_of_other_languages_are_hidden(form: str) -> None:
    masked = Masker([AWKWARD]).hide(f"before {form} after".encode())
    assert MASK in masked
    assert b"5" not in masked


NODE = r"""
const { inspect } = require('util');
const parts = ['username', 'password', 'pathname', 'search', 'hash'];
const inUrl = (address, part, value) => Object.assign(new URL(address), { [part]: value }).href;
const told = (value) => ({
  ...Object.fromEntries(['http://me@a.example/', 'postgres://me@a.example/'].flatMap((address) =>
    parts.map((part) => [`${part} of ${address}`, inUrl(address, part, value)]))),
  'URLSearchParams': `${new URLSearchParams({ k: value })}`,
  'encodeURIComponent': encodeURIComponent(value),
  'encodeURI': encodeURI(value),
  'JSON': JSON.stringify({ k: value }),
  'inspect': inspect({ k: value }),
  'inspect among quotation marks': inspect(`'"\`${value}`),
});
process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8')).map(told)));
"""


@pytest.mark.skipif(shutil.which("node") is None and "CI" not in os.environ, reason="node is not installed")
def test_all_that_node_makes_of_a_value_is_hidden() -> None:
    values = [f"tok{char}en{char}value" for char in (*string.punctuation, *"\0\b\v\f\x1b\x7f\x9bé€ ")]
    values += [f"tok{string.punctuation}value", "p@ss!w$rd&x-value", "k:ey/with[br]{}^-value"]
    ran = subprocess.run(["node", "-e", NODE], input=json.dumps(values), capture_output=True, check=True, text=True)
    for value, told in zip(values, json.loads(ran.stdout), strict=True):
        masker = Masker([value])
        for way, text in told.items():
            if "\\" in value and way == "pathname of http://me@a.example/":
                continue  # a backslash is a slash there
            masked = masker.hide(text.encode())
            assert MASK in masked, (way, text)
            assert b"value" not in masked, (way, text)


@pytest.mark.parametrize("end", ["\n", "\r\n", r"\n", r"\r\n"])
@pytest.mark.parametrize("width", [64, 76])
def test_base64_in_lines_is_hidden_wherever_it_begins(width: int, end: str) -> None:
    value = "".join(chr(33 + number % 90) for number in range(7, 127))
    masker = Masker([value])
    for before in range(80):
        text = base64.b64encode(b"x" * before + value.encode() + b"y" * 90).decode()
        lines = [text[at : at + width] for at in range(0, len(text), width)]
        masked = masker.hide(f"the log:{end}{end.join(lines)}{end}more".encode())
        assert masked.startswith(f"the log:{end}".encode())
        assert masked.endswith(f"{end}more".encode())
        told = masked.decode().removeprefix(f"the log:{end}").removesuffix(f"{end}more")
        left, right = told.replace(end, "").split("***")
        assert text.startswith(left)
        assert text.endswith(right)
        assert len(left) <= (before + 2) * 4 // 3
        assert len(right) <= 92 * 4 // 3 + 4


def test_base64_in_lines_that_was_cut_is_hidden_and_words_in_lines_stay() -> None:
    value = "".join(chr(33 + number % 90) for number in range(150))
    text = base64.encodebytes(value.encode())
    for cut in range(1, 150):
        assert Masker([value]).hide_cut(text[cut:]).strip(b"=\n") == MASK
        assert Masker([value]).hide_cut(text[:-cut]).strip(b"=\n") == MASK
    words = b"one two three four five six seven eight nine ten eleven twelve ses\name-open"
    assert Masker(["sesame-open"]).hide(words) == words


@pytest.mark.parametrize("value", ["hunter2\n", "  tokenvalue-12345\r\n"])
def test_a_value_with_a_line_break_at_its_end_is_hidden_without_it_too(value: str) -> None:
    bare, masker = value.strip(), Masker([value])
    for form in (bare, bare.encode().hex(), base64.b64encode(f"me:{bare}:x".encode()).decode(), value, repr(value)):
        masked = masker.hide(f"a {form} b".encode())
        assert MASK in masked
        assert bare.encode() not in masked
    assert masker.hide(bare.encode().hex().encode()) == MASK


def test_a_value_is_hidden_in_small_letters_as_the_name_of_a_host_is_told() -> None:
    value = "Tenant-9F3A.Example.org"
    told = f"[network] {value.lower()} is not in this handler's `hosts`".encode()
    assert Masker([value]).hide(told) == b"[network] *** is not in this handler's `hosts`"


def test_each_line_of_a_long_value_is_hidden() -> None:
    assert Masker([PEM]).hide(PEM.encode()) == MASK
    assert b"MIIE" not in Masker([PEM]).hide(b"x MIIEvQIBADANBgkqhkiG y")


def test_short_values_and_other_text_stay() -> None:
    assert Masker(["12345", ""]).hide(b"12345") == b"12345"
    assert Masker(["123456"]).hide(b"12345 and 6") == b"12345 and 6"
    assert Masker([]).hide_cut(b"text") == b"text"


def test_a_value_that_contains_another_goes_as_a_whole() -> None:
    assert Masker(["secret", "secret-and-more"]).hide(b"a secret-and-more b secret c") == b"a *** b *** c"


def test_a_value_that_was_cut_is_hidden_at_both_edges() -> None:
    masker = Masker(["abcdefghijkl"])
    assert masker.hide_cut(b"ghijkl and abcdef") == b"*** and ***"
    assert masker.hide_cut(b"hijkl and abcde") == b"hijkl and abcde"
    assert masker.hide_cut(b"cdefghijkl") == b"***"


def test_all_that_a_job_leaves() -> None:
    secret = b"sesame-open"
    one = stopped(
        secret,
        log=b"x " + secret,
        carried=secret,
        new_jobs=(NewJob("mail", b"to " + secret, "unique=" + secret.decode()),),
    )
    masked = Masker([secret.decode()]).hide_in(one)
    assert secret not in repr(masked).encode()
    assert masked.new_jobs == (NewJob("mail", b"to ***", "unique=***"),)
    assert masked.carried == MASK


def test_a_long_log_whose_beginning_was_dropped_in_the_middle_of_a_value() -> None:
    one = stopped(log=b"hijklmn and more", log_dropped=99)
    masked = Masker(["abcdefghijklmn"]).hide_in(one)
    assert masked.noted_log == b"[99 bytes before this were dropped]\n*** and more"


def test_a_type_that_contains_a_secret_makes_no_job() -> None:
    masked = Masker(["sesame-open"]).hide_in(stopped(new_jobs=(NewJob("sesame-open", b""),)))
    assert (masked.exitcode, masked.new_jobs) == (500, ())
    assert b"sesame" not in masked.result


@pytest.mark.parametrize("name", ["domain", "key", "unique"])
def test_options_are_searched_as_they_will_be_stored(name: str) -> None:
    encoded = "".join(f"%{byte:02x}" for byte in b"sesame open")
    options = f"child=1&{name}=a%20{encoded}%26&delay_s=1"
    masked = Masker(["sesame open"]).hide_in(stopped(new_jobs=(NewJob("mail", b"", options),)))
    assert dict(parse_qsl(masked.new_jobs[0].options)) == {"child": "1", name: "a ***&", "delay_s": "1"}
    masked = Masker(["sesame open"]).hide_in(stopped(new_jobs=(NewJob("mail", b"", f"{name}=sesam%65+open"),)))
    assert masked.new_jobs[0].options == f"{name}=***"
    plain = stopped(new_jobs=(NewJob("mail", b"", "domain=a%2Fb+c"),))
    assert Masker(["sesame open"]).hide_in(plain) == plain


def test_a_text_that_takes_too_long_to_search_is_hidden_as_a_whole() -> None:
    masker = Masker(["\n".join("a" * size for size in range(8, 150))])
    assert masker.hide(b"some text\n" + b"a" * 5000 + b"\n") == MASK + b"\n"
    assert masker.hide(b"some text\n" + b"a" * 100 + b" text" * 5000) == b"some text\n***" + b" text" * 5000


def test_lines_of_base64_that_are_joined_are_part_of_the_text_whose_search_is_bounded() -> None:
    line = b"sesameQQ" * 8
    masker = Masker(["sesame"])
    assert masker.hide(b" ".join([line] * 1000)) == b" ".join([b"***QQ" * 8] * 1000)
    assert masker.hide(b"\n \n".join([line] * 1000)) == MASK


def test_many_secrets_that_begin_alike_leave_other_texts_that_do_so() -> None:
    secrets = [f"https://hooks{at}.example.com/services/T{at:08}/aB{at * 7919:016}" for at in range(40)]
    others = [f"https://www.example.org/{at:06}" for at in range(300)]
    text = json.dumps([*others, *secrets]).encode()
    assert Masker(secrets).hide(text) == json.dumps([*others, *["***"] * 40]).encode()


class Counting(Masker):
    """Notes how much was searched at once."""

    most = 0

    def _hide(self, data: bytes, *, cut_begin: bool = False, cut_end: bool = False) -> bytes:
        self.most = max(self.most, len(data))
        return super()._hide(data, cut_begin=cut_begin, cut_end=cut_end)


@pytest.mark.parametrize(
    "text",
    [b"sesame-open and more\n" * 5000, b"J: mail|" + b"sesame-open " * 50_000 + b"\n", b"J: ..|" + b"x" * 2_000_000],
)
def test_of_a_long_text_only_the_end_is_searched(text: bytes) -> None:
    log = RawLog(ContextLimits(log_bytes=1000))
    log.masker = masker = Counting(["sesame-open"])
    log.feed(text)
    assert b"same" not in log.since(0)[0]
    printed = log.take()
    assert b"same" not in printed.log
    assert masker.most <= 2000 + masker.longest
    assert printed.dropped + len(printed.log) <= len(text)


@pytest.mark.parametrize("before", range(24))
def test_a_long_text_may_begin_within_a_secret(before: int) -> None:
    log = RawLog(ContextLimits(log_bytes=20))
    log.masker = Masker(["sesame-open"])
    log.feed(b"sesame-open" * 20 + b"." * before + b"\n")
    assert b"e-open" not in log.since(0)[0]


@pytest.mark.parametrize("step", [1, 3, 7, 4096])
def test_a_log_hides_what_arrives_in_pieces(step: int) -> None:
    log = RawLog(ContextLimits(log_bytes=105))
    log.masker = Masker(["sesame-open"])
    text = b"one sesame-open\ntwo " + b"sesame-open " * 50 + b"sesame-open\n" * 50 + b"the end sesame-open"
    for at in range(0, len(text), step):
        log.feed(text[at : at + step])
        shown = log.since(0)[0]
        assert b"sesame-op" not in shown
        assert b"e-open" not in shown  # nor its end, where the beginning of the log was dropped
    printed = log.take()
    assert printed.log.endswith(b"the end ***")
    assert b"sesame" not in printed.log


def test_a_line_without_end_hides_what_is_split_anywhere() -> None:
    for before in range(30):
        log = RawLog(ContextLimits(log_bytes=20))
        log.masker = Masker(["sesame-open"])
        for byte in b"." * before + b"sesame-open" + b"." * 5:
            log.feed(bytes([byte]))
        assert b"same" not in log.take().log


@pytest.mark.parametrize("shift", range(-13, 5))
def test_a_value_is_found_wherever_it_begins_in_a_long_text(shift: int) -> None:
    text = b"." * (64 * 1024 + shift) + b"sesame-open" + b"." * 70_000
    assert Masker(["sesame-open"]).hide(text) == text.replace(b"sesame-open", MASK)


def test_a_text_that_is_full_of_beginnings_takes_little_memory() -> None:
    value = "a" * 12 + "cdefgh"
    masker, text = Masker([value]), (b"a" * 12 + b"b") * 80_000 + value.encode()
    tracemalloc.start()
    try:
        assert masker.hide(text) == MASK
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6 << 20


def test_no_text_is_searched_for_longer_than_a_second_or_two() -> None:
    budget = Budget(1 << 30)
    budget.take(1_000_000)
    with pytest.raises(TooCostly):
        budget.take(1_000_001)
