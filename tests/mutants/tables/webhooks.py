"""What webhooks promise: only who proves it gets in, a delivery is one job, and strangers learn and cost little."""

from tests.mutants.mutant import Mutant, in_file

SIGNATURES = "tests/unit/functory/test_webhook_signatures.py"
DELIVERIES = "tests/web/test_deliveries.py"

signatures = in_file("functory/webhooks/signatures.py", SIGNATURES)
schemes = in_file("functory/webhooks/schemes.py", SIGNATURES)
payloads = in_file("functory/webhooks/payloads.py", "tests/unit/functory/test_webhook_payloads.py")
operations = in_file("functory/operations/webhooks.py", DELIVERIES)
terms = in_file("functory/operations/webhooks.py", "tests/web/test_webhooks.py")
known = in_file("functory/operations/known_webhooks.py", DELIVERIES)
keys = in_file("functory/operations/idempotency.py", "tests/web/test_idempotency_keys.py -k never_that_of")
room = in_file("functory/web/http/body_room.py", DELIVERIES)
answers = in_file("functory/web/api/deliveries.py", DELIVERIES)
POSTS = "tests/contract/engines/test_signed_posts.py"
posts = in_file("runner/http_engine.py", POSTS)
ARRIVALS = "tests/web/test_arrivals.py"
incoming = in_file("functory/web/api/incoming.py", f"{DELIVERIES} {ARRIVALS}")
noted = in_file("functory/web/api/incoming.py", ARRIVALS)
arrivals = in_file("functory/webhooks/arrivals.py", "tests/unit/functory/test_webhook_arrivals.py")
submitting = in_file("functory/operations/submit.py", ARRIVALS)
pages = in_file("functory/web/pages/webhooks.py", "tests/web/test_webhook_pages.py")
metric = in_file("functory/web/api/meta.py", ARRIVALS)
runner = in_file("runner/runner.py", POSTS)
messages = in_file("vocabulary/signed_messages.py", f"{POSTS} {SIGNATURES}")
sqlite = in_file("store/sqlite/records/webhooks.py", "tests/contract/store/test_webhooks.py -k sqlite")

MUTANTS: list[Mutant] = [
    signatures(
        "an empty key lets everybody in", "if (key := value.strip())]", "if (key := value.strip()) is not None]"
    ),
    signatures("a line end of a secret counts", "(key := value.strip())]", "(key := value)]"),
    signatures("old signatures are good", "away_s is None or away_s > TOLERANCE_S", "away_s is None"),
    signatures("a signature of tomorrow is good", "abs(now_ms / 1000 - int(time))", "now_ms / 1000 - int(time)"),
    signatures("no time is a good time", "away_s is None or away_s", "away_s is not None and away_s"),
    signatures("only the first signature counts", "signed.signatures[:_MOST_SIGNATURES]", "signed.signatures[:1]"),
    signatures(
        "a header may have any number of signatures", "signed.signatures[:_MOST_SIGNATURES]", "signed.signatures"
    ),
    signatures("hex in capitals is refused", "given.lower())", "given)"),
    signatures("a token may be empty", "    if not given:\n", "    if given is None:\n"),
    schemes(
        "slack does not sign the time",
        '(as_sent(time), delivery.body)\n    return Signed("X-Slack',
        '(b"", delivery.body)\n    return Signed("X-Slack',
    ),
    schemes(
        "an empty name of a header means that of the scheme",
        'DELIVERY_HEADERS.get(verify, "") if delivery_header is None else',
        'DELIVERY_HEADERS.get(verify, "") if not delivery_header else',
    ),
    payloads("handlers see the token in the address", " if name != option}", "}"),
    payloads("handlers see the token in a header", "name not in _PRIVATE and name != header", "name not in _PRIVATE"),
    payloads("handlers see keys and cookies", "name not in _PRIVATE and name != header", "name != header"),
    payloads("what is no text is JSON", "        data.decode()  # the codec", "        # the codec"),
    operations(
        "nobody is checked",
        "        check_delivery(webhook.terms, webhook.values",
        "        (lambda *_: None)(webhook.terms, webhook.values",
    ),
    operations(
        "long bodies are not checked",
        "await asyncio.to_thread(check_delivery, webhook.terms",
        "await asyncio.to_thread(lambda *_: None, webhook.terms",
    ),
    operations("a delivery that is sent again is another job", "    if not named:", "    if named or not named:"),
    keys(
        "a key of a request is that of a delivery",
        "    return _SET_APART + key if key.startswith(_NOT_OF_CALLERS) else key\n",
        "    return key\n",
    ),
    operations("webhooks share the names of deliveries", 'key=f"webhook:{name}:{digest}"', 'key=f"webhook:{digest}"'),
    operations(
        "the body of a delivery that is sent again must be the same",
        "fingerprint=Fingerprint(digest)",
        "fingerprint=Fingerprint(hashlib.sha256(payload).hexdigest())",
    ),
    operations(
        "who was suspended while a body came takes it",
        '    webhook.who.require("submit")\n    if webhook.trouble',
        "    if webhook.trouble",
    ),
    operations("without its secret a webhook takes anything", "    if webhook.trouble:", "    if not webhook:"),
    terms("who may manage lets others add jobs", '    who.require("submit")\n', ""),
    terms("who may not read lets others read results", '        who.require("read")\n', "        pass\n"),
    terms("secrets need not be set", "if absent := await", "if absent := not await"),
    known(
        "a change of a tenant waits",
        ">= LIFE_S * 1000 or seen.keys != keys",
        ">= LIFE_S * 1000",
    ),
    known(
        "each delivery waits for a store that is away",
        "            self._there[tenant, name] = seen._replace(asked_ms=now_ms)\n",
        "            pass\n",
    ),
    operations(
        "a store that hangs holds up deliveries", "look, known=last)", "look)", tests="tests/web/test_hung_store.py"
    ),
    known("a change of a webhook waits", "                del where[known]", "                pass"),
    known(
        "strangers drive webhooks out",
        "where = self._absent if webhook is None else self._there",
        "where = self._there",
    ),
    known("a change elsewhere is never seen", "abs(now_ms - seen.asked_ms) >= LIFE_S * 1000 or ", ""),
    known("what strangers ask for is kept without end", "len(where) >= _MAX_KNOWN", "False"),
    room("who says much takes room", "if has_room or come_bytes <= self.free_bytes:", "if has_room:"),
    room("large bodies take no room", "if has_room or come_bytes <= self.free_bytes:", "if True:"),
    answers("strangers read errors", "if record.outcome.code is not Code.OK:", "if False:"),
    answers("a result may act for who is signed in", '    shown.headers["Content-Security-Policy"] = _SANDBOX\n', ""),
    answers("every webhook takes GET", "    if incoming.webhook.terms.takes_get:", "    if True:"),
    answers(
        "a stranger's bodies keep out those of who has proved",
        "call.web.proved_bodies if",
        "call.web.webhook_bodies if",
    ),
    answers(
        "a change while a body comes is not seen",
        "        incoming.webhook = await find_webhook",
        "        await find_webhook",
    ),
    incoming("who need prove nothing has proved who it is", 'self.webhook.terms.verify != "none"', "True"),
    incoming("a delivery that was refused has no name", "named = id_in_header(", "named = '' and id_in_header("),
    noted("each refusal is logged", "        if count:\n", "        if True:\n"),
    answers(
        "a refusal is logged at the edge as well",
        "        return incoming.fail(error)",
        "        incoming.fail(error)\n        raise",
        tests=ARRIVALS,
    ),
    arrivals(
        "each refusal of a sender takes a place",
        "which = (reason, arrival.sender)",
        "which = (reason, arrival.delivery)",
    ),
    arrivals("refusals are kept without end", "refused, LAST)", "refused, 10**9)"),
    arrivals("webhooks are kept without end", "log, _MOST_WEBHOOKS)", "log, 10**9)"),
    arrivals("the webhook that is used most is forgotten first", "    where.move_to_end(key)\n", ""),
    arrivals(
        "what was forgotten is said to have been nothing", "            self._since_ms = now_ms\n", "            pass\n"
    ),
    arrivals("a long name is kept whole", "arrival.delivery[:_MOST_CHARS]", "arrival.delivery"),
    arrivals("a line of the log for each refusal", "< _TELL_EVERY_MS", "< 0"),
    arrivals("a line of the log tells of one", "arrival.at_ms, log.untold, 0", "arrival.at_ms, 1, 0"),
    arrivals("who has no address has proved who it is", "if is_proved and arrival.sender:", "if is_proved:"),
    arrivals("senders are known without end", "None, _MOST_PROVED)", "None, 10**9)"),
    operations(
        "a new webhook has what came to the one before",
        "    service.arrivals.forget(",
        "    service.arrivals.seen(",
        tests=ARRIVALS,
    ),
    operations(
        "a new tenant sees what came to the one before", "who.tenant_since_ms, name)", "0, name)", tests=ARRIVALS
    ),
    submitting(
        "a delivery that is sent again is said to be new",
        "Submitted(ids, is_repeat=True)",
        "Submitted(ids, is_repeat=False)",
    ),
    pages("the operator sets no webhooks", 'call.who.scopes | {"submit"}, suspended=False)', "call.who.scopes)"),
    pages("whoever may manage lets others add jobs", "if call.is_operator else call.who\n", "if True else call.who\n"),
    metric("metrics count no deliveries", "    text += metrics.render_arrivals(call.service.arrivals.totals)\n", ""),
    sqlite("webhooks of all tenants are listed", "WHERE tenant = ? ORDER BY name", "WHERE ? <> '' ORDER BY name"),
    posts(
        "posts are not signed",
        "        if secrets:\n            headers |=",
        "        if not secrets:\n            headers |=",
    ),
    posts(
        "each try is another message",
        'hashlib.sha256(" ".join([job.id for job in batch])',
        'hashlib.sha256(" ".join([str(id(job)) for job in batch])',
    ),
    runner(
        "jobs whose secret is not set are posted",
        "        except SecretMissingError as err:\n            run.stopped(",
        "        except SecretMissingError as err:\n            return await self._post(run, batch, ())\n            run.stopped(",
    ),
    runner("the line end of a secret signs", "[value.strip() or value for", "[value for"),
    messages("only the first secret signs", "for secret in secrets]", "for secret in secrets[:1]]"),
    messages("a key that is empty in base64 is one", "    return key or secret.encode()", "    return key"),
]
