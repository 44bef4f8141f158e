"""What alert rules promise: one job for each change, no flapping, nothing because a clock leapt, no tenant in the way."""

from tests.mutants.mutant import Mutant, in_file

LOOKS = "tests/service/test_alert_looks.py -k sqlite"
QUOTAS = "tests/service/test_alert_quotas.py -k sqlite"

judgement = in_file("functory/alerts/judgement.py", "tests/property/test_alert_judgement.py")
looks = in_file("functory/operations/alert_looks.py", LOOKS)
figures = in_file("functory/operations/alert_figures.py", LOOKS)
rules = in_file("functory/operations/alerts.py", "tests/web/test_alerts.py")
watch = in_file("functory/daemon/alert_watch.py", "tests/service/test_alert_watch.py -k 'not mongodb'")
sqlite = in_file("store/sqlite/records/alerts.py", "tests/contract/store/test_alerts.py -k sqlite")
metrics = in_file("functory/operations/tenant_metrics.py", "tests/web/test_tenant_metrics.py")

allowance = in_file("functory/operations/allowance.py", QUOTAS)

MUTANTS: list[Mutant] = [
    allowance("the quota of which least is used counts", "    return max(quota.share", "    return min(quota.share"),
    allowance(
        "a quota of nothing is never used up", "if self.limit else float(self.used > 0)", "if self.limit else 0.0"
    ),
    allowance(
        "a quota of nothing is always used up", "if self.limit else float(self.used > 0)", "if self.limit else 1.0"
    ),
    judgement(
        "a quota is told from the share on",
        "figures.used > terms.share_above",
        "figures.used >= terms.share_above",
        tests=QUOTAS,
    ),
    rules("a quota may be that of a type", 'if terms.when == "quota" and terms.type', "if False and terms.type"),
    looks(
        "a rule that was set by a clock that is ahead waits for its time", "if terms is not rule.terms:", "if False:"
    ),
    figures(
        "what a daemon counts whose clock is ahead is no sign of life",
        "terms.window_s, _FAST_CLOCK_MS)",
        "terms.window_s)",
    ),
    rules("a rule may tell of workers before they are known", "terms.longer_than_s < LEAST_UNASKED_S", "False"),
    judgement(
        "a rule is over at once when its condition does not hold any more",
        'is_over = standing.phase == "calming" and lasted_ms >= terms.calm_s * 1000',
        'is_over = standing.phase == "calming"',
    ),
    judgement(
        "a rule fires before it has held for its time",
        "may_fire = terms.for_s == 0 or (standing.phase",
        "may_fire = True or (standing.phase",
    ),
    judgement(
        "a leap of the clock counts as time that has passed",
        "self.now_ms - max(since_ms, self.even_since_ms)",
        "self.now_ms - since_ms",
    ),
    judgement(
        "a clock that was ahead keeps a rule until its time has come",
        "        standing = replace(standing, since_ms=moment.now_ms)\n",
        "        pass\n",
    ),
    judgement(
        "a notification is made while another is on its way",
        "standing.is_firing != standing.is_told and standing.notice is None and",
        "standing.is_firing != standing.is_told and",
    ),
    judgement("a mute is not heeded", "standing.muted_until_ms <= now_ms", "True"),
    judgement(
        "a share of a few runs fires",
        "figures.ended >= max(terms.at_least, 1) and",
        "figures.ended > 0 and",
    ),
    looks(
        "rules about one window ask for the same again and again",
        "    rules.sort(key=lambda rule: places[rule.terms.window_s])\n",
        "",
        tests="tests/service/test_alert_windows.py",
    ),
    looks(
        "who did not make a change tells of it, too",
        "            return  # somebody was quicker, and goes on with it\n",
        "            written = Rule(rule.record, rule.terms, standing)\n",
    ),
    looks(
        "a notification is added again after a crash",
        'key=f"alert:{notice.key}"',
        'key=f"alert:{secrets.token_hex(9)}"',
    ),
    looks(
        "a rule that this version refuses ends the look",
        "except _UNTAKEN as error:",
        "except ZeroDivisionError as error:",
    ),
    looks("a suspended tenant is looked at", "who is None or who.suspended", "who is None"),
    figures("a pattern means types that notify, too", "name not in notifying and matches(name)", "matches(name)"),
    figures(
        "runs in error are no failures", "{Code.FAILED, Code.ERROR, Code.ABANDONED}", "{Code.FAILED, Code.ABANDONED}"
    ),
    rules(
        "a full tenant makes a rule, and loses it",
        "len(rules) >= MAX_ALERTS",
        "len(rules) >= 10**9",
        equivalent="it is withdrawn at once",
    ),
    rules(
        "rules that are made at the same time are not counted",
        "if len(await service.store.list_alerts(tenant)) > MAX_ALERTS:",
        "if False:",
    ),
    rules("a rule watches its own notifications", "if terms.type == terms.notify:", "if False:"),
    rules(
        "a change of a rule forgets how it stands", "record = before._replace(", 'record = before._replace(state="", '
    ),
    watch(
        "every daemon looks", "return bool(alive) and alive[-1].sysid ==", "return bool(alive) or alive[-1].sysid =="
    ),
    watch(
        "a daemon whose clock was ahead keeps all others from looking",
        " and it.until_ms - now_ms <= self._longest_ms",
        "",
    ),
    watch("a tenant whose look took long does not rest", "ended_s + REST * (ended_s - began_s)", "ended_s"),
    watch("a leap of the clock is not noticed", "            self._even_since_ms = now_ms\n", "            pass\n"),
    watch(
        "a look that hangs is waited for", "async with asyncio.timeout(MOST_S):", "async with asyncio.timeout(None):"
    ),
    sqlite("who is late overwrites a rule", " AND version = ?3 - 1 AND created = ?4", " AND created = ?4"),
    sqlite(
        "a deleted rule changes the next of its name", " AND version = ?3 - 1 AND created = ?4", " AND version = ?3 - 1"
    ),
    metrics(
        "the window of quantiles has no end",
        "since_ms = max((now_ms - WINDOW_MS) // MINUTE_MS * MINUTE_MS, 0)",
        "since_ms = max((now_ms - 1000 * WINDOW_MS) // MINUTE_MS * MINUTE_MS, 0)",
    ),
]
