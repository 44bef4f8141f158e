"""Doors that are open: scopes, sessions, forms, hosts, escaping, bounds of what comes in."""

from tests.mutants.mutant import Mutant, in_file

SCOPES = "tests/web/test_scopes.py tests/web/test_security.py"
ESCAPING = "tests/web/test_escaping.py"
PAGES = "tests/web/test_pages_security.py"
BODIES = "tests/web/test_scopes.py tests/web/test_http.py tests/web/test_add.py"

endpoint = in_file("functory/web/http/endpoint.py", SCOPES)
results = in_file("functory/web/api/results.py", SCOPES)
handlers = in_file("functory/web/api/handlers.py", SCOPES)
body = in_file("functory/web/http/body.py", BODIES)
forwarded = in_file("functory/web/http/forwarded.py", "tests/unit/functory/test_forwarded.py tests/web/test_proxy.py")
page = in_file("functory/web/pages/endpoint.py", PAGES)
signin = in_file("functory/web/pages/signin.py", PAGES)
origins = in_file("functory/web/pages/allowed_origins.py", PAGES)
assets = in_file("functory/web/pages/assets.py", ESCAPING)
progress = in_file("functory/web/http/progress.py", "tests/web/test_progress.py")
room = in_file("functory/web/http/body_room.py", "tests/unit/web/test_body_room.py")
throttle = in_file("functory/web/pages/throttle.py", PAGES)
express = in_file("functory/web/express.py", "tests/web/test_express_waits.py")
connection = in_file("functory/web/connection.py", "tests/web/test_express_waits.py")
paths = in_file("functory/web/http/path_index.py", "tests/web/test_path_index.py")
WAITING = "tests/web/test_waiting.py"
adding = in_file("functory/web/api/add.py", WAITING)
keyring = in_file("functory/operations/keyring.py", f"{WAITING} tests/bedrock/test_waiting.py")
work = in_file("functory/web/api/workers.py", WAITING)
streams = in_file("functory/web/http/event_streams.py", WAITING)
bedrock_taking = in_file("functory/bedrock/taking.py", "tests/bedrock/test_waiting.py")
recent = in_file("functory/operations/recent_consumers.py", "tests/web/test_consumers.py")


settings = in_file("functory/operations/job_settings.py", "tests/web/test_add.py")


def unescaped(name: str, file: str, old: str) -> Mutant:
    return Mutant(name, f"functory/web/pages/templates/{file}", old, old.replace(" }}", "|safe }}"), ESCAPING)


MUTANTS: list[Mutant] = [
    room(
        "who has large bodies under way goes before who has none",
        "(mine or self._last_ended.get(tenant, 0) > longest)",
        "self._last_ended.get(tenant, 0) > longest",
    ),
    room(
        "two tenants take all room for large bodies",
        "        most_bytes = self._in_all_bytes - self._in_all_bytes // _LEFT_PART",
        "        most_bytes = self._in_all_bytes",
    ),
    room(
        "who stood back is not told",
        "                self._hand_out()  # others may have stood back for it",
        "                pass",
    ),
    room(
        "tenants that take turns keep out one that waits",
        "(mine or self._last_ended.get(tenant, 0) > longest)",
        "mine",
    ),
    room(
        "a tenant that waits while its bodies end stands back for ever",
        "                self._waiting[tenant].since = self._ended\n",
        "                pass\n",
    ),
    room(
        "room that came too late is lost",
        "                self._give_back(tenant, size_bytes)\n                raise\n",
        "                raise\n",
    ),
    settings("options may be nested as deeply as can be read", "    if is_too_deep(options):", "    if False:"),
    paths(
        "a word that a path begins with hides the paths of tenants",
        "    if fixed is not None and (end := _find(fixed, method, parts, at + 1, values)) is not None:\n        return end\n",
        "    if fixed is not None:\n        return _find(fixed, method, parts, at + 1, values)\n",
    ),
    paths(
        "a part that led nowhere is given to another path",
        "        values.pop()\n",
        "        pass\n",
        equivalent="no path leads back twice",
    ),
    paths("encoded paths are taken as they are", "[A-Za-z0-9_.:-]+)+", "[A-Za-z0-9_.:%-]+)+"),
    paths("paths upwards are taken as they are", "(?!\\.)", ""),
    express(
        "who may not read may wait for a job",
        '            if waiting is not None:\n                principal.require("read")\n',
        "",
    ),
    express("who waits on the fast path does not wait", "ids, self._wait_s)", "ids, 0.0)"),
    connection(
        "who waits keeps the service from stopping", "            self._serving.cancel()\n", "            pass\n"
    ),
    connection(
        "large answers of the fast path have no place",
        "            if len(answer) <= LARGE_BYTES:",
        "            if True:",
    ),
    recent(
        "without its store a daemon has no health", "except (StoreUnavailable, TimeoutError):", "except TimeoutError:"
    ),
    recent("each look at the health looks at the store", "                self._looked_ms = now_ms()\n", ""),
    progress(
        "without room for a stream a deployment is refused",
        "and (has_room or len(asked) == 1)",
        "",
    ),
    progress("steps have no end", "if step and sent < MOST_STEPS:", "if step:"),
    progress(
        "steps come as fast as a build prints",
        "                await asyncio.wait([task], timeout=self._gap_s)\n",
        "",
    ),
    progress("a step is as long as it likes", "        shown = step[:STEP_CHARS]", "        shown = step"),
    progress(
        "a client that leaves ends what others wait for",
        "            await asyncio.wait([task])\n",
        "            task.cancel()\n            await asyncio.wait([task])\n",
    ),
    endpoint(
        "a key opens the paths of other tenants",
        '            principal.require_tenant(params["tenant"])',
        "            pass",
    ),
    endpoint("scopes do not count", "            principal.require(route.scope)", "            pass"),
    endpoint("requests have no rate", "        state.charge(principal)\n", ""),
    results("failures are for every key", '"/{tenant}/failures", scope="read"', '"/{tenant}/failures", scope="any"'),
    results("results are for every key", '"/{tenant}/results", scope="read"', '"/{tenant}/results", scope="any"'),
    handlers(
        "a key that reads may run code",
        'invoke",\n    scope="handlers"',
        'invoke",\n    scope="read"',
    ),
    handlers(
        "a key that reads may change code",
        '"PUT",\n    "/{tenant}/handler/{type}",\n    scope="handlers"',
        '"PUT",\n    "/{tenant}/handler/{type}",\n    scope="read"',
    ),
    body(
        "a chunked body has no limit",
        "        body.write(chunk)\n        if body.tell() > limit:\n            raise _too_large(limit)\n",
        "        body.write(chunk)\n",
    ),
    body(
        "a body that came with its headers has no limit",
        "        return _within(content.read_nowait(), limit)",
        "        return content.read_nowait()",
    ),
    body(
        "a compression bomb has no limit",
        "            body.write(piece)\n            if body.tell() > limit:\n                raise _too_large(limit)\n",
        "            body.write(piece)\n",
    ),
    body(
        "a body that never ends is waited for",
        "        async with asyncio.timeout(settings.body_timeout_s):\n            return",
        "        async with asyncio.timeout(10**6):\n            return",
    ),
    body("a body that ends too early is taken", "    if not unpacker.eof:", "    if False:"),
    forwarded(
        "anybody may say where a request comes from",
        "    if nearest is None or not _is_among(nearest, trusted):",
        "    if nearest is None:",
    ),
    forwarded("the first hop is believed", "        if not _is_among(hop, trusted):\n            break\n", ""),
    page(
        "forms of other sessions are taken",
        "    if call.session is not None and not hmac.compare_digest(",
        "    if False and not hmac.compare_digest(",
    ),
    page(
        "forms of other sites are taken", "    call.tools.origins.check_origin(call.place, call.request.headers)\n", ""
    ),
    page(
        "pages of other tenants are shown",
        '    if principal.tenant != OPERATOR or "operator" not in principal.scopes:\n        raise unknown\n',
        "",
    ),
    page(
        "the operator's pages are shown to tenants",
        '        if route.scope == "operator" and principal.tenant != OPERATOR:',
        "        if False:",
        tests="tests/web/test_pages_security.py",
    ),
    page(
        "the operator may change a tenant's code",
        'frozenset({"read", "manage"})',
        'frozenset({"read", "manage", "handlers"})',
    ),
    page(
        "pages have no rate",
        "            _count(self._tools.web, call.session.principal)",
        "            pass",
        tests="tests/web/test_pages_security.py tests/web/test_pages.py",
    ),
    page(
        "a live page goes on after its session ended",
        "            except (FunctoryError, StoreError):\n                return False\n",
        "            except (FunctoryError, StoreError):\n                return True\n",
        tests="tests/web/test_pages_security.py tests/web/test_pages.py tests/web/test_live.py",
    ),
    signin(
        "the sign-in form can be sent from elsewhere",
        "    if not expected or not hmac.compare_digest(",
        "    if False and not hmac.compare_digest(",
    ),
    signin("keys can be guessed without end", "    call.tools.throttle.take(call.client, time.monotonic())\n", ""),
    signin(
        "signing in leads to any address", '    is_own = path == "/ui" or path.startswith("/ui/")', "    is_own = True"
    ),
    signin(
        "the session's cookie is for scripts, too",
        'name, value, max_age=max_age_s, path="/", httponly=True,',
        'name, value, max_age=max_age_s, path="/", httponly=False,',
    ),
    signin(
        "an old session lives on after a new one",
        "        await call.tools.sessions.close(call.cookie)  # signing in again ends the old session",
        "        pass",
    ),
    origins("pages answer to any name", "        if address is None and name not in self._names:", "        if False:"),
    origins(
        "forms come from any origin", '        if origin not in {None, "null", place.origin}:', "        if False:"
    ),
    origins(
        "forms come from any site",
        "        if fetched_from is not None and fetched_from not in _OWN:",
        "        if False:",
    ),
    page("a form that needs no session is large", "        limit_bytes = _OPEN_FORM_BYTES\n", ""),
    page(
        "a form that needs no session may be packed",
        '        if "Content-Encoding" in call.request.headers:',
        "        if False:",
    ),
    keyring(
        "a revoked key is good for who waits", "            await self.recheck(who.key_id)\n", "            pass\n"
    ),
    keyring("an expired key is good while the store is away", "if who.has_expired(now_ms):", "if False:"),
    keyring(
        "a key is kept that was revoked while it was verified",
        "        self._cache.keep(self._cache.by_digest, digest, verified, changes)\n",
        "        self._cache.keep(self._cache.by_digest, digest, verified)\n",
    ),
    keyring("a key is good that was looked at before it was revoked", "ask((key_id, changes), ", "ask((key_id, 0), "),
    adding(
        "a body keeps its room while its jobs are waited for",
        "    await call.forget_body()\n",
        "",
        tests="tests/web/test_idempotency_keys.py -k no_room",
    ),
    adding("a result is told to a revoked key", "            await web_.keys.confirm(added.who)\n", ""),
    work(
        "jobs that a revoked key waited for are lost",
        "        await operations.return_taken(call.service, call.principal, taken)\n",
        "        pass\n",
    ),
    work(
        "jobs are lost whose taker cannot be confirmed",
        "    except BaseException:  # the",
        "    except FunctoryError:  # the",
    ),
    streams(
        "a log is followed with a revoked key", "                    await check()\n", "                    pass\n"
    ),
    bedrock_taking("a connection gets jobs with a revoked key", "        await call.confirm()\n", ""),
    throttle(
        "one address does not wait",
        "            self._by_address.take(counted_as(address), now_s, rate_per_s=self._per_s, burst=self._burst)\n",
        "",
    ),
    assets("nothing is escaped", "        autoescape=True,", "        autoescape=False,"),
    unescaped("the result on a job's page is not escaped", "live/job.html", "{{ result.text }}"),
    unescaped("the error on a job's page is not escaped", "live/job.html", "{{ message }}"),
    unescaped(
        "the failure on the scoreboard is not escaped",
        "live/board.html",
        '{{ group.failure.message|line(140) or "no message" }}',
    ),
    unescaped(
        "the payload is not escaped",
        "macros.html",
        '<pre class="text{{ " hex" if shown.is_hex }}" tabindex="0" aria-label="{{ title }}">{{ shown.text }}',
    ),
    unescaped("a handler's text is not escaped", "version.html", "{{ body.text }}"),
    unescaped("a message in a list is not escaped", "macros.html", "<bdi>{{ job.message }}"),
    unescaped("the label of a key is not escaped", "tenant.html", "{{ key.label|line(100) }}"),
    unescaped("the host of a daemon is not escaped", "live/daemons.html", "{{ daemon.host }}"),
    unescaped("the editor's text is not escaped", "editor.html", "{{ draft.body }}"),
]
