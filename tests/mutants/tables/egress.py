"""Ways out that a context must not have, and ways to hold up the proxy. The tests of the network by name must see each."""

from tests.mutants.mutant import Mutant, in_file

PROXY = "tests/unit/functory/test_egress_proxy.py"
CONTEXTS = "tests/security/test_egress.py"

hosts = in_file("handlers/hosts.py", "tests/unit/handlers/test_hosts.py")
resolver = in_file("runner/resolver.py", f"tests/unit/runner/test_resolver.py {PROXY}")
targets = in_file("runner/targets.py", f"tests/unit/runner/test_resolver.py {PROXY}")
head = in_file("functory/egress/head.py", "tests/unit/functory/test_egress_parsing.py")
body = in_file("functory/egress/request_body.py", "tests/unit/functory/test_egress_parsing.py")
hello = in_file("functory/egress/client_hello.py", "tests/unit/functory/test_egress_parsing.py")
connection = in_file("functory/egress/connection.py", PROXY)
side = in_file("functory/egress/side.py", PROXY)
proxy = in_file("functory/egress/proxy.py", PROXY)
meters = in_file("functory/egress/meters.py", "tests/unit/functory/test_egress_meters.py")
seccomp = in_file("runner/sandbox/seccomp.py", CONTEXTS)
egress = in_file("runner/egress.py", CONTEXTS)
launcher = in_file("runner/sandbox/launcher.py", CONTEXTS)
model = in_file("handlers/model.py", "tests/unit/handlers/test_handlers.py")

MUTANTS: list[Mutant] = [
    hosts("a domain is among the names below it", "name.endswith(self.name[1:])", "name.endswith(self.name[2:])"),
    hosts("every port is open", "        return not self.ports or port in self.ports", "        return True"),
    resolver("addresses are not checked", "            self.targets.check(host, port, addresses)\n", ""),
    resolver("what is not allowed is resolved", "if not by_name and not self.targets.networks:", "if False:"),
    resolver("a tenant may have every thread", "            await mine.acquire()\n", "            pass\n"),
    targets(
        "a private address makes every name allowed", "if not by_name and not self._is_open(address):", "if False:"
    ),
    head("the request's own Host goes on", '{"host", "connection",', '{"connection",'),
    head("two lengths are taken", "    if len(lengths) + len(codings) > 1:", "    if False:"),
    body(
        "a chunk may end anywhere",
        "            if at <= place < at + count and data[place] != expected:",
        "            if False:",
    ),
    body(
        "all pieces of an arrival are looked at in one go",
        " and self.pieces < most:",
        ":",
        tests="tests/unit/functory/test_egress_meters.py",
    ),
    connection("a second request goes on", "        self._host.write(data[:own])", "        self._host.write(data)"),
    connection("TLS may ask for any host", "        if name is not None and name != host:", "        if False:"),
    connection(
        "a hello may take for ever",
        "            self._hello_timer = loop.call_later(self._limits.head_s, self._end_late_hello)",
        "            loop.time()",
    ),
    connection(
        "bytes of a hello are read again",
        "not self._may_pass(self._hello, host, data)",
        "not self._may_pass(self._hello, host, bytes(self._early))",
    ),
    hello("a hello may come in any number of records", "        if self._records > MOST_RECORDS:", "        if False:"),
    hello("a hello may be very long", " and self._size > MOST_BYTES:", " and False:"),
    hello(
        "a record may be longer than TLS has them", "        if self._left > _MOST_RECORD_BYTES:", "        if False:"
    ),
    side(
        "a side that does not read stops nobody", '        self._connection.other(self).hold("full")', "        return"
    ),
    connection(
        "an answer before the end of a body is lost",
        "and self._answer.is_over and not self._client.has_ended",
        "and False",
        tests="tests/unit/functory/test_egress_plain.py",
    ),
    connection("a head may have no end", " or len(self._early) > head.MAX_BYTES:", ":"),
    connection("a byte a minute keeps a connection", " or now - self.started_at > self._limits.life_s", ""),
    proxy("any host is called", "        if not matches_any(gate.hosts, host, port):", "        if False:"),
    proxy(
        "tunnels outlive their context",
        "            for task in (*self._connections, *self._refusals):\n                task.cancel()\n",
        "",
    ),
    proxy("connections are not paced", "            self._rest(rest_s)\n", "            pass\n"),
    meters("small arrivals are free", "max(count, _ARRIVAL_BYTES) if count else 0", "count"),
    connection(
        "what is dropped is not paced",
        "        self._pace(side, count=len(data))\n        if self._is_flowing:\n",
        "        if self._is_flowing:\n            self._pace(side, count=len(data))\n",
        tests="tests/unit/functory/test_egress_meters.py",
    ),
    meters("an hour never ends", "        if now - self._since >= _HOUR_S:", "        if self._since < 0:"),
    meters(
        "bytes of one tenant count for all", "if self.of(tenant).hour.add(0, now) >=", "if self.all.hour.add(0, now) >="
    ),
    seccomp(
        "UDP can be used where there is a proxy",
        "_jump(_JUMP_EQUAL, socket.SOCK_STREAM, then=0, otherwise=5)",
        "_jump(_JUMP_EQUAL, socket.SOCK_STREAM, then=0, otherwise=0)",
    ),
    egress("a gate stays open", ".add_done_callback(lambda _: gate.close())", ".add_done_callback(lambda _: None)"),
    launcher(
        "without namespaces a handler with hosts is run",
        "        if spec.egress and Layer.NAMESPACES not in self.layers:",
        "        if False:",
    ),
    model("sharers of an eid share hosts", ", packages, list(self.hosts), *(", ", packages, *("),
]
