"""Hosts as patterns: one spelling, and no name that a pattern does not mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.hosts import host_name, is_covered, matches_any, parse_pattern, parse_patterns


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("api.example.org", "api.example.org", 443, True),
        ("api.example.org", "api.example.org", 80, True),
        ("api.example.org", "api.example.org", 8443, False),
        ("api.example.org:8443", "api.example.org", 8443, True),
        ("api.example.org:8443", "api.example.org", 443, False),
        ("API.Example.ORG.", "api.example.org", 443, True),
        ("*.example.org", "api.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "notexample.org", 443, False),
        ("*.example.org", "example.org.evil.net", 443, False),
        ("example.org", "api.example.org", 443, False),
        ("*", "anything.example", 443, True),
        ("*", "anything.example", 25, False),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        ("10.0.5.7:9000", "10.0.5.7", 9000, True),
        ("[2001:DB8::1]:9000", "2001:db8::1", 9000, True),
        ("*.0.5.example", "10.0.5.7", 443, False),
    ],
)
def test_what_a_pattern_means(pattern: str, host: str, port: int, matches: bool) -> None:
    assert parse_pattern(pattern).matches(host_name(host), port) is matches


@pytest.mark.parametrize(
    "text",
    [
        *("", "*.", ".", "a..b", "-a.org", "a_.org:0", "a.org:65536", "a.org:x", "a.org:", "a.org:*", "a b.org"),
        *("*.*.org", "a.*.org", "*a.org", "http://a.org", "a.org/path", "u@a.org", "127.1", "0x7f.1", "2130706433"),
        *("*.10.0.0.1", "[::1%eth0]:80", "fe80::1%lo", "[::1", "a" * 64 + ".org", "a." * 140 + "org", "a\r\n.org"),
    ],
)
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_pattern(text)


def test_a_wrong_port_is_told_with_its_host() -> None:
    with pytest.raises(ValueError, match=r"'a\.org:x': the port is not a number from 1 to 65535"):
        parse_pattern("a.org:x")


@pytest.mark.parametrize("text", ["http://example.com/", "https://example.com", "example.com/path", "example.com:80/"])
def test_a_url_is_said_to_be_no_host(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host: leave out http:// and the path"):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("wanted", "allowed", "covered"),
    [
        ("api.example.org", "*", True),
        ("*", "*", True),
        ("*", "*.org", False),
        ("api.example.org:25", "*", False),
        ("api.example.org:25", "*:*", True),
        ("api.example.org:25", "*, *.example.org:25", True),
        ("api.example.org", "api.example.org:443", False),
        ("api.example.org", "api.example.org:443, *:80", True),
        ("*.api.example.org", "*.example.org", True),
        ("*.example.org", "*.api.example.org", False),
        ("example.org", "*.example.org", False),
        ("example.org", "", False),
    ],
)
def test_what_an_operator_has_allowed(wanted: str, allowed: str, covered: bool) -> None:
    assert is_covered(parse_pattern(wanted), parse_patterns(allowed)) is covered


_NAMES = st.lists(st.sampled_from(["a", "b", "api", "*", "org"]), min_size=1, max_size=4).map(".".join)


@settings(max_examples=60)
@given(_NAMES, _NAMES, _NAMES)
def test_whatever_a_covered_pattern_matches_its_cover_matches_too(wanted: str, allowed: str, host: str) -> None:
    try:
        inner, outer, name = parse_pattern(wanted), parse_pattern(allowed), host_name(host)
    except ValueError:
        return
    if is_covered(inner, [outer]) and inner.matches(name, 443):
        assert matches_any([outer], name, 443)


@pytest.mark.parametrize("text", ["api.example.org", "*.example.org:8443", "*", "[2001:db8::1]:9000", "10.0.0.1"])
def test_a_pattern_is_shown_as_it_is_written(text: str) -> None:
    assert str(parse_pattern(text)) == text
