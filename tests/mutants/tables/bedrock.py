"""The wire protocol of Bedrock::Jobs."""

from tests.mutants.mutant import Mutant, in_file

COMMANDS = "tests/bedrock/test_commands.py"
WAITING = "tests/bedrock/test_waiting.py"
HOSTILE = "tests/bedrock/test_hostile.py"
CALLERS = "tests/bedrock/test_callers.py"
SESSION = "tests/bedrock/test_session.py"
GONE = "tests/bedrock/test_numbers.py"
ROOM = "tests/bedrock/test_room.py"
NUMBERS = "tests/contract/store/test_numbers.py"

changing = in_file("functory/bedrock/changing.py", COMMANDS)
taking = in_file("functory/bedrock/taking.py", WAITING)
callers = in_file("functory/bedrock/callers.py", CALLERS)
connection = in_file("functory/bedrock/connection.py", HOSTILE)
parser = in_file("functory/bedrock/parser.py", HOSTILE)
looking = in_file("functory/bedrock/looking.py", "tests/bedrock/test_query.py")
select = in_file("functory/bedrock/select.py", "tests/unit/functory/test_bedrock_select.py")
commands = in_file("functory/bedrock/commands.py", CALLERS)

MUTANTS: list[Mutant] = [
    looking("rows are compared in one go", "        await slices.spend(cost)\n", ""),
    looking(
        "patterns of a query cost nothing",
        "_ROW_COST + sum(condition.cost for condition in select.conditions)",
        "_ROW_COST",
    ),
    select(
        "a query may have patterns of any length",
        "                check_length(str(value))\n",
        "                pass\n",
    ),
    changing(
        "who lost a job ends the work of another",
        "        delivery, repeats = Delivery(job_id, held.token), held.repeats",
        "        delivery, repeats = Delivery(job_id, None), held.repeats",
    ),
    changing("the data of a round is not carried on", "carried=data if repeats else None", "", tests=SESSION),
    changing("an update lets the lease lapse", "        await workers.renew(call.service, call.who, [delivery])\n", ""),
    changing(
        "a worker changes jobs that it does not hold",
        '        call.who.require("manage")\n        await job_changes.update_job',
        "        await job_changes.update_job",
        tests=CALLERS,
    ),
    changing(
        "a retry with a name needs no right to submit",
        '    call.who.require("submit")\n',
        "",
        tests=CALLERS,
    ),
    changing("a retry keeps its name", "    if name is None:\n        report", "    if True:\n        report"),
    in_file("functory/execution/outbox.py", WAITING)(
        "children wait for the next look when their parent is paused",
        "self._pausing if report.paused else ()",
        "()",
    ),
    taking(
        "one who has left waits on",
        "        await asyncio.wait([taking, gone], return_when=asyncio.FIRST_COMPLETED)",
        "        await asyncio.wait([taking])",
    ),
    callers(
        "any site may post without a key",
        '        elif request.is_http and "origin" in request.parameters:',
        "        elif False:",
    ),
    callers("requests are free", "        self._web.charge(who)\n", ""),
    connection(
        "a tenant has room for answers twice",
        "room.of(self.peer.payer, len(data))",
        "room.of(self.peer.address, len(data))",
    ),
    commands(
        "one without a key takes room of the tenant before it", "        peer.payer = peer.address\n", "", tests=HOSTILE
    ),
    connection(
        "a large body without a key is read",
        "            if authorization is not None or self._parser.has_head or self._settings.tenant:",
        "            if authorization is not None or self._settings.tenant:",
    ),
    connection(
        "who has a key waits for room with those who have none",
        "            if authorization is not None or self._parser.has_head or self._settings.tenant:",
        "            if self._parser.has_head:",
    ),
    connection(
        "a large request behind one that waits is not read on",
        "if (request is None or self._parser.size_bytes < FREE_BYTES) and",
        "if self._parser.size_bytes < FREE_BYTES and",
    ),
    connection("blank lines win time", "            return  # blank lines", "            pass  # blank lines"),
    parser("blank lines have no end", "if self._blank_bytes > _BLANK_BYTES:", "if False:"),
    parser("a form is as long as any body", "if start and len(body) > self._settings.max_form_bytes:", "if False:"),
    parser(
        "commands without data have large bodies",
        "settings.max_body_bytes if takes_data else",
        "settings.max_body_bytes or",
    ),
    in_file("functory/bedrock/relatives.py", HOSTILE)(
        "the data of relatives has no bound", "has_room = size_bytes <= self._left_bytes", "has_room = True"
    ),
    taking(
        "the data of relatives takes no room",
        "call.web.bodies.of(call.tenant, relatives.size_bytes)",
        "call.web.bodies.of(call.tenant, 0)",
        tests=HOSTILE,
    ),
    taking(
        "a claimed job waits for room without a bound",
        "asyncio.timeout(ROOM_WAIT_S)",
        "asyncio.timeout(None)",
        tests=ROOM,
    ),
    connection(
        "jobs are lost with an answer that nobody hears",
        "            await self.peer.if_unheard()\n",
        "            pass\n",
        tests=ROOM,
    ),
    in_file("functory/bedrock/input_room.py", HOSTILE)(
        "one owner takes all room",
        "            if beside and beside + after > self._of_one_bytes:",
        "            if False:",
    ),
    commands("a scope is not asked for", "        who.require(command.scope)\n", ""),
    connection(
        "connections are not counted", "if len(self._shared.open) < self._settings.max_connections:", "if True:"
    ),
    connection(
        "requests pile up behind one that waits",
        "        if self._parser.size_bytes >= FREE_BYTES:\n            self._transport.pause_reading()",
        "        pass",
    ),
    in_file("store/sqlite/queue/numbers.py", NUMBERS)(
        "a number is given again", "SET last = last + ?2", "SET last = last"
    ),
    in_file("functory/bedrock/call.py", GONE)(
        "a number is that of a deleted tenant",
        "await self.numbers.find_anew(self.tenant, number)",
        "await self.numbers.find(self.tenant, number)",
    ),
    in_file("functory/bedrock/creating.py", GONE)(
        "a parent is that of a deleted tenant",
        "await call.numbers.find_anew(call.tenant, number)",
        "await call.numbers.find(call.tenant, number)",
    ),
    in_file("functory/bedrock/creating.py", GONE)(
        "jobs that are gone have no number", "    if gone:  # they", "    if False:  # they"
    ),
]
