"""Walls with a hole. The attacks on the sandbox must find each."""

from tests.mutants.mutant import Mutant, in_file

WALLS = "tests/unit/runner/test_seccomp.py tests/security/test_contexts.py tests/security/test_layers.py"
SECCOMP = "tests/unit/runner/test_seccomp.py tests/security/test_layers.py"

seccomp = in_file("runner/sandbox/seccomp.py", SECCOMP)
confine = in_file("runner/sandbox/inner/confine.py", WALLS)
runtime = in_file("runner/sandbox/runtime.py", "tests/security/test_installed.py")
installed = in_file("runner/sandbox/installed.py", "tests/security/test_installed.py")
languages = in_file("handlers/languages.py", "tests/security/test_installed.py")
kinds = in_file("runner/sandbox/kinds.py", "tests/security/test_contexts.py")
staged = in_file("runner/sandbox/handover.py", "tests/security/test_staged_copies.py")
staging = in_file("runner/sandbox/launcher.py", "tests/security/test_staged_copies.py")
init = in_file("runner/sandbox/inner/init.py", "tests/unit/runner/test_inner_init.py")
uids = in_file("runner/sandbox/uids.py", "tests/unit/runner/test_uids.py")

MUTANTS: list[Mutant] = [
    runtime(
        "packages of the machine stay in sight",
        '        flags += ["--tmpfs", place, ',
        '        [] + ["--tmpfs", place, ',
    ),
    runtime("contexts search the packages of the machine", '[python.path, "-IS", "-c"', '[python.path, "-I", "-c"'),
    installed("Landlock grants what is hidden by another name", "(Path(start).resolve() for", "(Path(start) for"),
    installed("Landlock grants what is hidden", "    if path in hidden:\n        return\n", ""),
    languages(
        "without isolation the machine's packages are found", '_PYTHON: Final = ("-IS",)', '_PYTHON: Final = ("-I",)'
    ),
    languages(
        "php finds the machine's libraries", '_PHP: Final = ("-n", "-d", "include_path=.")', '_PHP: Final = ("-n",)'
    ),
    seccomp(
        "another architecture gets past the filter", "        _answer(_KILL_PROCESS),\n", "        _answer(_ALLOW),\n"
    ),
    seccomp("calls of x32 get past the filter", '    if machine == "x86_64":', "    if False:"),
    in_file("runner/sandbox/child.py", "tests/security/test_after_the_batch.py -k init")(
        "a batch holds its slot for as long as its context's init is kept from running",
        "asyncio.timeout(_TIDY_S)",
        "asyncio.timeout(None)",
    ),
    staged("copies that nobody uses fill the disk", "            remove(copy.parent)\n", "            pass\n"),
    staged(
        "half a copy stays",
        "            except BaseException:\n                remove(parent)\n                raise\n            parent.chmod",
        "            except BaseException:\n                raise\n            parent.chmod",
    ),
    staging(
        "a copy is removed while a context has it",
        "            if path not in self._with_folder and not any(",
        "            if not any(",
    ),
    staging(
        "packages of spawners that ended fill the disk",
        "            if view.packages is not None:\n                self._clear_later(view.packages)\n",
        "",
    ),
    init(
        "whoever has the number of a process that ended is ended for it",
        "        with contextlib.nullcontext() if uid is None else _taking(uid):\n",
        "        with contextlib.nullcontext():\n",
    ),
    seccomp("a context has the disks of all synced", "_answer(_DONE)]", "_answer(_ALLOW)]"),
    seccomp(
        "refused calls are allowed",
        "            code += [_jump(_JUMP_EQUAL, number, then=0, otherwise=1), _answer(_REFUSE)]\n    for needless",
        "            code += [_jump(_JUMP_EQUAL, number, then=0, otherwise=1), _answer(_ALLOW)]\n    for needless",
    ),
    seccomp(
        "clone3 is allowed",
        "    code += [_jump(_JUMP_EQUAL, syscalls.CLONE3[column], then=0, otherwise=1), _answer(_NOT_THERE)]\n",
        "",
    ),
    seccomp(
        "namespaces can be made",
        "    code += _refuse_if(syscalls.CLONE[column], _ARG0, _JUMP_ANY_BIT, (_NAMESPACE_FLAGS,))\n",
        "",
    ),
    seccomp(
        "another's terminal can be typed into",
        "    code += _refuse_if(syscalls.IOCTL[column], _ARG1, _JUMP_EQUAL, _TERMINAL_IOCTLS)\n",
        "",
    ),
    seccomp("any socket can be made", "    code += _refuse_unless(syscalls.SOCKET[column], _ARG0, families)\n", ""),
    in_file("runner/sandbox/launcher.py", "tests/security/test_layers.py")(
        "with the network granted, abstract sockets of others are in reach",
        "(is_scoped or not view.network)",
        "True",
    ),
    in_file("runner/sandbox/launcher.py", "tests/security/test_layers.py")(
        "Landlock is taken to know abstract sockets on any kernel",
        "Layer.LANDLOCK in self.layers and landlock.keeps_unix_sockets()",
        "Layer.LANDLOCK in self.layers",
    ),
    seccomp(
        "unix sockets of the machine are in reach",
        "(*((socket.AF_UNIX,) if unix else ()),",
        "(*((socket.AF_UNIX,)),",
    ),
    seccomp("a pair of sockets sends datagrams to anybody", "datagrams=unix)", "datagrams=True)"),
    seccomp("the network is open to all", "*(_NETWORK_FAMILIES if network else ())", "*_NETWORK_FAMILIES"),
    confine(
        "contexts share the network",
        "    kernel.unshare(flags if network else flags | kernel.CLONE_NEWNET)",
        "    kernel.unshare(flags)",
    ),
    confine("contexts keep root's groups", "    os.setgroups([])\n", ""),
    confine("contexts keep their privileges", "    kernel.drop_capabilities()\n", ""),
    confine(
        "a program of root's gives privileges back",
        "    kernel.set_no_new_privileges()\n    if order.landlock:",
        "    if order.landlock:",
    ),
    confine(
        "Landlock is left out",
        "    if order.landlock:\n",
        "    if False:\n",
    ),
    confine("seccomp is left out", "        kernel.load_seccomp(bytes.fromhex(order.seccomp))", "        pass"),
    confine("descriptors of the daemon stay open", "        os.closerange(_FIRST_FREE_FD, report)\n", ""),
    confine(
        "limits of a process are left out",
        "        resource.setrlimit(number, (bounded, later if hard == resource.RLIM_INFINITY else min(later, hard)))",
        "        pass",
    ),
    confine(
        "all of /proc is visible", '"proc", safe | kernel.MS_NOEXEC, "subset=pid")', '"proc", safe | kernel.MS_NOEXEC)'
    ),
    confine(
        "scratch space has no limit",
        'options = f"size={order.scratch_bytes},nr_inodes',
        'options = f"size=90%,nr_inodes',
    ),
    kinds(
        "a folder that was made anew is taken for the old one",
        "        return cls(path, found.st_ino, found.st_ctime_ns)",
        "        return cls(path, 0, 0)",
    ),
    uids("two contexts have one uid", "        self._taken.add(uid)\n", ""),
    uids(
        "two daemons use one range",
        "                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "                pass\n",
    ),
    uids(
        "the range has no end",
        "        if len(self._taken) == self._count:",
        "        if False:",
        equivalent="it would look for a free uid for ever: a hang, and no uid outside the range",
    ),
]
