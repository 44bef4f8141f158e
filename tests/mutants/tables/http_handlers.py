"""Handlers that live elsewhere: doors into the operator's network, and answers that cost more than their job."""

from tests.mutants.mutant import Mutant, in_file

SSRF = "tests/security/test_ssrf.py tests/security/test_hostile_answers.py tests/contract/engines/test_http.py"

http = in_file("runner/http_engine.py", SSRF)
targets = in_file("runner/targets.py", SSRF)

MUTANTS: list[Mutant] = [
    http(
        "a redirect leads inside",
        "        check_address(str(address[0]), self._resolver.targets.networks)\n        made",
        "        made",
        equivalent="the resolver has checked the same address; this is the second lock on the door",
    ),
    http(
        "an answer has no limit",
        "                if len(body) > self._limits.result_bytes:",
        "                if False:",
    ),
    http(
        "a redirect to what is no URL ends the batch",
        "        except Exception as err:  # noqa: BLE001 (libraries raise more than they promise over what a host sends)",
        "        except (aiohttp.ClientError, OSError) as err:",
    ),
    http(
        "a host sends heads without end",
        "        if self._is_answered or (is_interim and self._heads == _MOST_INTERIM):",
        "        if self._is_answered:",
    ),
    http("a host answers more than once", "        self._is_answered = not is_interim\n", ""),
    http("a connection is used for one request only", "self._heads, self._is_answered = 0, False", "self._heads = 0"),
    http("a proxy of the environment is used", "                trust_env=False,", "                trust_env=True,"),
    http(
        "cookies go from one tenant to the next",
        "                cookie_jar=aiohttp.DummyCookieJar(),",
        "                cookie_jar=aiohttp.CookieJar(unsafe=True),",
    ),
    http(
        "redirects are followed without a look", "allow_redirects=False) as answer:", "allow_redirects=True) as answer:"
    ),
    targets("private addresses may be called", "        if not is_public(one):", "        if False:"),
    targets(
        "IPv4 inside IPv6 may be called", "    for one in (address, *_inside(address)):", "    for one in (address,):"
    ),
    targets(
        "shared address space may be called",
        '"100.64.0.0/10", ',
        "",
        equivalent="python says itself that it is not global; it stands there for those who read",
    ),
]
