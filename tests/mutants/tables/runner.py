"""Outcomes that go to the wrong job, contexts that serve two masters, limits that do not hold."""

from tests.mutants.mutant import Mutant, in_file

ENGINES = "tests/contract/engines/test_between_batches.py tests/contract/engines/test_batches.py -k plain"
LIMITS = "tests/contract/engines/test_limits.py tests/contract/engines/test_outcomes.py -k plain"
BATCH = "tests/property/test_batch.py tests/property/test_first_batch.py tests/security/test_protocol_attacks.py"
CANCEL = "tests/contract/engines/test_cancel.py -k plain"

SECRETS = "tests/unit/runner/test_masking.py tests/unit/runner/test_masked_reports.py tests/contract/engines/test_secrets.py -k 'not sandbox'"
FORMS = "tests/property/test_form_search.py tests/unit/runner/test_masking.py"

masking = in_file("runner/masking.py", SECRETS)
form_search = in_file("runner/form_search.py", FORMS)
form_tree = in_file("runner/form_tree.py", FORMS)
secret_forms = in_file("runner/secret_forms.py", SECRETS)
raw_log = in_file("runner/raw_log.py", SECRETS)
context = in_file("runner/context.py", ENGINES)
batch = in_file("runner/batch.py", BATCH)
pool = in_file("runner/pool.py", "tests/unit/runner/test_pool.py")
timed_event = in_file("runner/timed_event.py", "tests/unit/runner/test_timed_event.py")
run = in_file("runner/runner.py", "tests/service/test_leases.py")
call = in_file("runner/run.py", "tests/unit/runner/test_run.py")
PACKAGES = "tests/unit/handlers/test_packages.py tests/unit/handlers/test_package_collecting.py tests/unit/runner/test_package_trees.py tests/unit/runner/test_package_steps.py"
trees = in_file("runner/packages/trees.py", PACKAGES)
provider = in_file("runner/packages/provider.py", PACKAGES)
collector = in_file("functory/daemon/package_collector.py", PACKAGES)
asked = in_file("handlers/packages.py", PACKAGES)
NODE_PACKAGES = "tests/unit/handlers/test_node_packages.py"
npm = in_file("handlers/npm.py", NODE_PACKAGES)
build_sandbox = in_file("runner/packages/sandbox.py", PACKAGES)
bootstrap = in_file("handlers/bootstraps/packages.py", "tests/unit/handlers/test_tarballs.py")
tools = in_file("runner/packages/tools.py", NODE_PACKAGES)
details = in_file("runner/protocol.py", "tests/property/test_fast_paths.py")
wire = in_file("runner/wire.py", "tests/unit/runner/test_wire.py")
answers = in_file("runner/status_lines.py", "tests/security/test_oversized.py")

MUTANTS: list[Mutant] = [
    timed_event(
        "the timer of an earlier wait ends a later one",
        "        if self._loop.time() < self._until:\n",
        "        if self._loop.time() < 0:\n",
    ),
    timed_event(
        "a shorter bound waits for the timer of a longer one",
        "if self._timer is None or self._timer.when() > self._until:",
        "if self._timer is None:",
    ),
    pool(
        "a start that failed keeps its memory",
        "            self._memory.give_back(owner, memory_bytes)\n            raise\n        seat.owner",
        "            raise\n        seat.owner",
    ),
    timed_event("a timer is left behind", "            self._timer.cancel()\n", ""),
    in_file("functory/execution/trial_runs.py", "tests/service/test_trial_runs.py")(
        "whoever may cancel jobs ends what runs outside the queue",
        'f"{_ID}-{secrets.token_hex(_TOKEN_BYTES)}"',
        "_ID",
    ),
    batch(
        "a first job claims more time than there was",
        "min(max(total_us / 1000 - elapsed_ms, 0.0), self._unheard_ms)",
        "max(total_us / 1000 - elapsed_ms, 0.0)",
        tests="tests/property/test_batch.py",
    ),
    batch(
        "every job may claim the time before its handler was ready",
        "            self._unheard_ms = 0.0\n        if not",
        "        if not",
        tests="tests/property/test_batch.py",
    ),
    details("a log beside a result is overlooked", "    if any(logs) or any(dropped)", "    if any(dropped)"),
    details("new jobs beside a result are overlooked", " or any(counts) or set(delays_ms)", " or set(delays_ms)"),
    details(
        "what a job carries on is overlooked",
        "    return results if tuple(map(len, results)) == sizes else None\n",
        "    return results\n",
    ),
    details("many results may be of any size", " or max(sizes) > most_bytes:", ":"),
    wire(
        "a full pipe of replies stays as it is",
        "        if len(data) >= _FULL_BYTES and",
        "        if len(data) > _READ_BYTES and",
    ),
    trees("a file of a wheel lands outside its tree", 'part not in ("", ".", "..") and ', 'part not in ("", ".") and '),
    trees(
        "a tree has its name before it is whole",
        "            remove(stage)\n            raise\n",
        "            raise\n",
    ),
    trees(
        "a tree may be as big as it likes", "        if self._size_bytes > self._room.max_bytes:", "        if False:"
    ),
    npm(
        "what a package says of itself is an error of ours",
        "    except RecursionError:  # npm",
        "    except KeyError:  # npm",
    ),
    asked("an installer is sent to an address", "        if not _DEPENDENCY.fullmatch(each):", "        if not each:"),
    asked("a lock without hashes is taken", " or not 0 < len(hashes) <= MAX_HASHES", " or len(hashes) > MAX_HASHES"),
    npm("npm is sent to an address", "or not _is_plain(wanted)", "or not wanted.isprintable()"),
    npm("a package without a hash is locked", "    if not strong or len(strong) > 4:", "    if len(strong) > 4:"),
    npm("a weak hash will do", "sha(?:256|384|512)-[A-Za-z0-9+/]{43,86}", "sha(?:1|256|384|512)-[A-Za-z0-9+/]{27,86}"),
    npm("a link is locked", 'if match is None or entry.get("link"):', "if match is None:"),
    npm("what only developers need is installed", 'entry.get("dev") is True or ', ""),
    npm("a file from anywhere is locked", " and is_ours(address))", ")"),
    tools(
        "a host that begins like the registry's is the registry",
        "host.matches(name, port)",
        "name.startswith(host.name)",
    ),
    tools(
        "an account is printed with the address",
        "urlunsplit((url.scheme, place,",
        "urlunsplit((url.scheme, url.netloc,",
    ),
    provider(
        "a tenant builds as much at once as it likes",
        "            async with own, self._seats,",
        "            async with self._seats,",
    ),
    provider("what was tried is not what is saved", " and not anew and time", " and False and time"),
    collector(
        "packages that a version needs are collected",
        "                    return True\n        return False",
        "                    return False\n        return False",
    ),
    collector(
        "packages are collected while they are used",
        "await self._packages.unused(tenant, unused_s)",
        "await self._packages.unused(tenant, -1.0)",
    ),
    bootstrap(
        "a tarball is whatever its file is called",
        '                if manifest["name"] == name:\n',
        "                if True:\n",
    ),
    bootstrap("a folder of tarballs serves any file", "and int(number) < len(self.paths) else", "else"),
    bootstrap(
        "a tarball is described without its hash",
        '    dist = {"integrity": f"sha512-{base64.b64encode(digest).decode()}"}',
        "    dist: dict[str, str] = {}",
    ),
    build_sandbox(
        "builds from tarballs have the machine's network",
        "            egress=is_proxied or has_loopback,",
        "            egress=is_proxied,",
        tests="tests/unit/handlers/test_tarballs.py",
    ),
    provider(
        "who joins a build hears nothing of it",
        "        self._listeners.append(listener)\n",
        "        self._listeners.append(nobody)\n",
    ),
    provider(
        "who asked for packages and left is told on",
        "            self._listeners.remove(listener)\n",
        "            pass\n",
    ),
    build_sandbox(
        "steps show the account of the index",
        '            text = self._curtain.before(last[:_LINE_BYTES].decode("utf-8", "replace"))',
        '            text = last[:_LINE_BYTES].decode("utf-8", "replace")',
    ),
    build_sandbox(
        "a step is a piece of a line", "        *lines, rest = (self._rest + said)", "        *lines, rest = said"
    ),
    provider("packages have no quota", "        if quota is None:", "        if quota:"),
    form_search("a value that was cut before a text is shown", "        if cut_begin and", "        if False and"),
    form_search("a value that was cut after a text is shown", "        if cut_end and", "        if False and"),
    form_tree(
        "a short form hides a part of a longer one", "                found = end\n", "                return end\n"
    ),
    form_tree("a search for secrets may take for ever", "            raise TooCostly\n", "            pass\n"),
    form_search(
        "places where a form may start cost nothing",
        "                        budget.take(_STEPS_PER_START)\n",
        "",
    ),
    form_tree("long comparisons cost nothing", "1 + (end - begin) // _STEP_BYTES", "1"),
    form_search("secrets at odd places are not found", "for start in (place - 1, place):", "for start in (place,):"),
    form_search("only every other word is looked at", "for offset in (0, _WORD // 2):", "for offset in (0,):"),
    masking(
        "what took too long to search is shown",
        'return MASK + b"\\n" if data.endswith(b"\\n") else MASK',
        "return data",
    ),
    masking(
        "every tenant's secrets are searched in a thread of its own",
        "            async with self._turns.of(sum(map(_searched_bytes, stopped))):\n",
        "            if True:\n",
    ),
    masking("short texts wait for long ones", "self._long if size_bytes > _LONG_BYTES else self._short", "self._short"),
    masking(
        "what waits to be searched is not held",
        "        self._flow.hold(self._tenant, sum(map(held_bytes, bounded)))\n",
        "",
    ),
    masking("new jobs carry secrets on", "payload=self.hide(new.payload)", "payload=new.payload"),
    masking("encoded options carry secrets on", 'if "%" in text or "+" in text else text', "if False else text"),
    masking("the types of new jobs are searched on the loop", " + sum(len(new.type) for new in stopped.new_jobs)", ""),
    secret_forms("base64 is hidden in one alignment only", "for offset in range(3):", "for offset in range(1):"),
    secret_forms("hex in capitals is shown", "    yield data.hex().upper().encode()\n", ""),
    secret_forms("what a shell quotes is shown", '        yield data.replace(b"\'", quoted)\n', "        continue\n"),
    secret_forms("small letters in a URL are shown", "found[0].lower()", "found[0]"),
    raw_log(
        "new jobs past the limit are read",
        " or self._inside or self._found.too_much:",
        " or self._inside:",
        tests="tests/security/test_oversized.py",
    ),
    answers("an answer has any number of lines", '    if body.count(b"\\n") > most:', "    if False:"),
    answers("an answer is read in one step", "        if number % _STEP_LINES == 0:", "        if False:"),
    answers("new jobs past the limit are read", "        if self._new_jobs.too_much:", "        if False:"),
    answers("C: lines make a result of a status line", "[JC]: |#", "J: |#"),
    raw_log("a long print is searched as a whole", "        cut = len(text) - self._most_bytes\n", "        cut = 0\n"),
    raw_log(
        "a long print shows the end of a secret", "self.masker.hide_end(text[cut:])", "self.masker.hide(text[cut:])"
    ),
    raw_log("a secret in a long line is shown in halves", "text[: max(cut, 0)]", "text"),
    raw_log("what a job prints is shown as it is", "return self.hide(text)", "return text"),
    run(
        "a context keeps an older version of a secret",
        "run.incarnation, given.stamp)",
        "run.incarnation)",
        tests=SECRETS,
    ),
    run("the raw log of a context shows secrets", "if given.masker is not None:", "if False:", tests=SECRETS),
    context(
        "a cancelled batch goes on in a live context",
        "        except BaseException:\n            await self.close()\n            raise\n        finally:\n            self._batch = None",
        "        finally:\n            self._batch = None",
    ),
    context(
        "what was printed between batches is not dropped at the start of one",
        "        self.log.begin(makes_jobs=handler.prints_jobs)\n",
        "        self.log.makes_jobs, self.log._is_idle = handler.prints_jobs, False\n",
        equivalent="be_idle keeps nothing of it in the first place",
    ),
    context(
        "a context that broke its batch is used again",
        "        await self.close()\n        return batch.give_up(",
        "        return batch.give_up(",
        tests=LIMITS,
    ),
    batch(
        "time limits do not hold",
        "        return max(self.progress_at + self.handler.timeout_s, self._allowed_until)",
        "        return self.progress_at + 10**6",
        tests="tests/service/test_promises.py",
    ),
    batch(
        "outcomes in another order are taken",
        '                if number != self.reported + index:\n                    raise ProtocolError("reported jobs out of order")\n',
        "",
    ),
    batch(
        "a batch reports more jobs than it has",
        "        if not self._begun or self.over or end > len(self.jobs):",
        "        if not self._begun or self.over:",
    ),
    batch(
        "a batch that is over goes on",
        "        if number != self.number or self.over:",
        "        if number != self.number:",
    ),
    batch("another batch is spoken of", "        if number != self.number or self.over:", "        if self.over:"),
    batch(
        "jobs that did not start pay for the one that crashed",
        "        return [job.id for job in self.jobs[self.reported + 1 :]]",
        "        return []",
    ),
    batch(
        "the job that crashed its context is given back",
        "        self._on_stopped([*self._held, culprit])\n        return [job.id for job in self.jobs[self.reported + 1 :]]",
        "        self._on_stopped(self._held)\n        return [job.id for job in self.jobs[self.reported :]]",
    ),
    batch(
        "a context may have its jobs given back for ever",
        "        elif kind == protocol.LEAVING and self.reported and not self._left:",
        "        elif kind == protocol.LEAVING and not self._left:",
    ),
    batch("a job tells its progress without end", "        if self._told > PROGRESS_FREE:\n", "        if False:\n"),
    batch(
        "a job decides its own code after it was asked to stop",
        "        if self._asked:\n            self._take_last_words(Reply(*replies[0]))\n            return\n",
        "",
        tests=f"tests/contract/engines/test_limits.py {BATCH}",
    ),
    batch(
        "outcomes are kept though afterEach failed",
        "        if self._hook_error:\n            self._on_stopped(self._errors(outcome.BROKEN, self._hook_error, now))\n        elif self._held:",
        "        if self._held:",
        tests=f"{ENGINES}",
    ),
    batch(
        "a job that runs again has made its new jobs already",
        "            () if leaves_nothing else detail.new_jobs,",
        "            detail.new_jobs,",
        tests=f"tests/contract/engines/test_outcomes.py {BATCH}",
    ),
    in_file("runner/outcome.py", LIMITS)(
        "a new job that is too big leaves the others of its run",
        "return exitcode >= BROKEN or exitcode == TOO_BIG",
        "return exitcode >= BROKEN",
    ),
    in_file("runner/new_jobs.py", f"{BATCH} tests/security/test_oversized.py")(
        "results have no limit", "    if len(detail.result) > limits.result_bytes:", "    if False:"
    ),
    batch(
        "the last words of a context are with the job before",
        "and self._is_gone():",
        "and False:",
        tests="tests/property/test_last_words.py",
    ),
    pool(
        "contexts have no limit",
        "        while self._seats >= self._settings.max_contexts:\n            self._pressed_at",
        "        while False:\n            self._pressed_at",
    ),
    pool(
        "no place is kept free for the next that needs one",
        "left < int(self._settings.max_contexts * _SPARE_SEATS)",
        "left < 0",
    ),
    pool(
        "a context of another tenant is lent",
        "        seats = self._idle.get(key, [])\n        while seats:",
        "        seats = self._idle.get(key) or next(iter(self._idle.values()), [])\n        while seats:",
    ),
    pool(
        "a broken context is lent again",
        "            if seat.context.usable:\n                if seat.context.is_metered:",
        "            if True:\n                if seat.context.is_metered:",
    ),
    pool("contexts are never recycled", "            and context.jobs_run < settings.max_jobs\n", ""),
    pool(
        "a start that failed keeps its place",
        "        except BaseException:\n            self._free_seat()\n            raise\n        return Seat",
        "        except BaseException:\n            raise\n        return Seat",
    ),
    pool(
        "a place is free before its context is gone",
        "            await seat.context.close()\n        finally:\n            self._ending -= 1\n            self._free_seat()",
        "            self._ending -= 1\n            self._free_seat()\n        finally:\n            await seat.context.close()",
    ),
    run(
        "jobs are started under a lease that lapsed",
        "            if not run.may_start():  # to get a context may have taken long\n                return False\n",
        "",
    ),
    run(
        "http jobs are started under a lease that lapsed",
        "            if not run.may_start():\n                return False\n            if jobs := run",
        "            if jobs := run",
        tests="tests/contract/engines/test_http.py",
    ),
    batch(
        "progress of one job is shown as the next one's",
        '                self.progress = b""\n',
        "",
        tests="tests/contract/engines/test_watching.py -k plain",
    ),
    run(
        "another tenant looks at a run",
        "            if run.tenant == tenant and job_id in run.ids:\n                return run.glimpse",
        "            if job_id in run.ids:\n                return run.glimpse",
        tests="tests/contract/engines/test_watching.py -k plain",
    ),
    call(
        "a cancelled job keeps its own outcome",
        "        if self.cancelled:\n            stopped = [",
        "        if False:\n            stopped = [",
    ),
    run(
        "another tenant stops a run",
        "for run in self._running if run.tenant == tenant and job_id in run.ids]",
        "for run in self._running if job_id in run.ids]",
        tests=CANCEL,
    ),
    context(
        "a job whose turn comes later is not stopped",
        "        if batch.feed(replies, now) or batch.is_running_a_cancelled_job:",
        "        if batch.feed(replies, now):",
        tests=CANCEL,
    ),
]
