"""Turns that are unfair, caps that do not hold, retries that never end or never begin."""

from tests.mutants.mutant import Mutant, in_file

UNIT = "tests/unit/scheduler tests/property/test_scheduler.py"

queue = in_file("scheduler/fair_queue.py", UNIT)
deficit = in_file("scheduler/deficit.py", UNIT)
board = in_file("scheduler/board.py", UNIT)
policy = in_file("scheduler/policy.py", UNIT)
retry = in_file("scheduler/retry.py", UNIT)
repeat = in_file("scheduler/repeat.py", f"{UNIT} tests/property/test_repeat_sqlite.py")
cron = in_file("scheduler/cron.py", UNIT)
costs = in_file("scheduler/costs.py", UNIT)

PRIORITY = "tests/unit/scheduler/test_fairness.py -k 'urgent or warm'"

MUTANTS: list[Mutant] = [
    cron(
        "a calendar forgets a time of a gap before midnight",
        "                        late.append(time)\n",
        "",
    ),
    cron("a calendar wants day and weekday", 'is_either=day[0] != "*" and weekday[0] != "*"', "is_either=False"),
    repeat("a calendar runs a round twice when clocks are put back", "max(scheduled_ms, finished_ms)", "finished_ms"),
    deficit("priorities of types do not count", "STEP ** ((state.priority - 500) / 500)", "1.0", tests=PRIORITY),
    deficit("a warm sibling of lower priority goes first", " or rival.weight < first.weight:", ":", tests=PRIORITY),
    queue(
        "who is urgent stands behind when it comes",
        "(1.0 if self._is_urgent_first else weight)",
        "weight",
        tests=PRIORITY,
    ),
    queue(
        "who was away has all its credit",
        "            rival.turn_s = max(rival.turn_s, self.round_s - rival.credit_s)\n        elif",
        "            pass\n        elif",
    ),
    queue(
        "weights do not count",
        "        rival.turn_s = turn + cost_s / rival.weight",
        "        rival.turn_s = turn + cost_s",
    ),
    queue(
        "the highest turn goes next",
        "                if best is None or turn < best_turn:",
        "                if best is None or turn > best_turn:",
    ),
    queue(
        "those passed over lose their place",
        "        for entry in passed:\n            heapq.heappush(heap, entry)\n",
        "",
    ),
    queue(
        "a debt is forgotten with its owner",
        "            if n < spare or rival.turn_s <= self.round_s - rival.credit_s:",
        "            if True:",
    ),
    queue(
        "what it really cost is not charged", "        rival.turn_s += by_s / rival.weight", "        rival.turn_s += 0"
    ),
    costs(
        "a slow start makes jobs slow", "max(cost.worked_s / cost.jobs, 1e-9)", "max(cost.spent_s / cost.jobs, 1e-9)"
    ),
    costs(
        "the start of a context is paid for each job",
        "(cost.spent_s - cost.worked_s) / cost.batches + count * cost.worked_s / cost.jobs",
        "count * cost.spent_s / cost.jobs",
    ),
    costs(
        "a first job is trusted for thousands",
        "min(int(GROWTH * cost.jobs), self._options.max_batch)",
        "self._options.max_batch",
    ),
    costs("jobs took longer than their slot was held", "min(worked_s, runner_s)", "worked_s"),
    policy("one type is spread over the slots of all", "self.board.free_slots // rivals", "self.board.free_slots"),
    queue("who left still stands", "        self.standing -= rival.lane is not None\n", ""),
    deficit(
        "a start is free",
        "state.tenant.terms.weight), charge.cost_s)\n        queue.serve",
        "state.tenant.terms.weight), 0.0)\n        queue.serve",
    ),
    deficit("a capped type runs on", "        if state.waiting and not state.is_capped:", "        if state.waiting:"),
    deficit("a capped tenant runs on", " or tenant.is_capped else", " else"),
    deficit(
        "long work takes the kept slots",
        "        if not self._has_rivals or slots <= 2 or self._long_held < slots - kept:",
        "        if True:",
    ),
    policy(
        "a tenant takes all slots beside others",
        "        return len(self.board.tenants) > 1 and tenant.slots_held",
        "        return False and tenant.slots_held",
    ),
    deficit(
        "a warm context wins whatever the turn",
        "        latest_s = first.turn_s + self.options.warm_slack_s",
        "        latest_s = first.turn_s + 10**9",
    ),
    deficit(
        "what runs too long is not charged before its end",
        "            self._correct(state, runner_s - charge.cost_s)\n            charge.cost_s = runner_s",
        "            charge.cost_s = runner_s",
    ),
    board(
        "slots are never given back",
        "        self.free_slots -= 1\n        return state",
        "        self.free_slots -= 2\n        return state",
    ),
    board(
        "caps allow one more",
        "self.slots_held + self.outside >= self.terms.max_slots",
        "self.slots_held + self.outside > self.terms.max_slots",
    ),
    retry("attempts have no limit", "    if attempts >= policy.max_attempts:", "    if False:"),
    retry("the window has no end", "    if now_ms >= end_ms:", "    if False:"),
    retry(
        "a handler may ask for a wait past the window",
        "        if asked_s * 1000 > end_ms - now_ms:",
        "        if False:",
    ),
    retry("a negative wait is obeyed", "    if asked_s is not None and asked_s >= 0:", "    if asked_s is not None:"),
    retry(
        "there is no jitter",
        "round(roll * backoff_s(policy, attempts) * 1000)",
        "round(backoff_s(policy, attempts) * 1000)",
    ),
    retry(
        "the last try is after the window",
        "    return RetryAt(min(now_ms + round(roll * backoff_s(policy, attempts) * 1000), end_ms))",
        "    return RetryAt(now_ms + round(roll * backoff_s(policy, attempts) * 1000))",
    ),
    repeat("a repeat that does not move on is accepted", "    if due_ms <= base_ms:", "    if due_ms < base_ms:"),
    repeat(
        "a repeat counts from the wrong time",
        "Base.STARTED: started_ms, Base.FINISHED: finished_ms}",
        "Base.STARTED: finished_ms, Base.FINISHED: started_ms}",
    ),
    repeat("the week begins on another day", "(self.day - at.isoweekday()) % 7", "(self.day - at.weekday()) % 7"),
    costs(
        "batches have no limit",
        "        return max(1, min(int(most_s / job_s), spread, waiting, most))",
        "        return max(1, min(int(most_s / job_s), spread, waiting))",
    ),
    costs(
        "an unknown type gets a large batch",
        "        if cost is None:\n            return 1\n",
        "        if cost is None:\n            return waiting\n",
    ),
    costs(
        "a slow job is forgotten at once",
        "max(runner_s / count, old.peak_s - runner_s * PEAK_FADES)",
        "runner_s / count",
    ),
]
