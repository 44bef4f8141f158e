"""Attacks the sandbox of this machine and says which level was really reached.

The level that counts is not what the machine offers but what held. An attack ends in one of three ways: it was stopped,
it got through, or it could not be tried, because its program did not start. An attack that got through although the
level promises to stop it lowers the level until it fits; so does one that no language could try, since nothing proves
that it would be stopped. What a level does not promise is listed, never left out.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from runner.errors import IsolationError, LaunchError, ProgramError
from runner.launch import Child, Exit, LaunchSpec, Level
from runner.sandbox import layers
from runner.sandbox.attacks import ATTACKS, PROGRAMS, Attack
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer, LayerState
from runner.sandbox.victims import LIMITS, Victims, still_answers, victims

_ATTACK_TIMEOUT_S: Final = 60.0
_BRIEF_AT_ONCE: Final = 8
"""An attack mostly waits for the kernel to make and end its context: at once they take a fraction of the time."""
_EOF_TIMEOUT_S: Final = 10.0
_INTERPRETERS: Final = {"node": "node", "sh": "sh"}
_KEPT_LOG_BYTES: Final = 2000


class Outcome(StrEnum):
    STOPPED = "stopped"
    THROUGH = "through"
    UNTRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one attack went; `stopped_from` is the lowest level that promises to stop it."""

    attack: str
    language: str
    outcome: Outcome
    detail: str
    stopped_from: Level

    @property
    def stopped(self) -> bool:
        return self.outcome is Outcome.STOPPED


@dataclass(frozen=True, slots=True)
class Report:
    """What the machine offers, what held, and so the level that tenants really get."""

    level: Level
    offered: Level
    layers: tuple[LayerState, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """Attacks that got through although the offered level promises to stop them."""
        return tuple(v for v in self.verdicts if v.outcome is Outcome.THROUGH and v.stopped_from <= self.offered)

    @property
    def untried(self) -> tuple[Verdict, ...]:
        """Attacks that could not be tried in their language; they neither prove nor disprove anything."""
        return tuple(v for v in self.verdicts if v.outcome is Outcome.UNTRIED)

    @property
    def unable(self) -> dict[str, str]:
        """Languages in which not one attack could be tried, each with the first reason."""
        able = {v.language for v in self.verdicts if v.outcome is not Outcome.UNTRIED}
        return {v.language: v.detail for v in reversed(self.untried) if v.language not in able}

    @property
    def missing(self) -> tuple[LayerState, ...]:
        return tuple(state for state in self.layers if not state.available)


async def probe(*, brief: bool = False, languages: Iterable[str] = ("python", "node", "sh")) -> Report:
    """Attack this machine's sandbox: the whole list, or for `brief` the part that a start can afford."""
    states = await asyncio.to_thread(layers.detect)
    chosen = [attack for attack in ATTACKS if attack.brief or not brief]
    installed = await asyncio.to_thread(lambda: [name for name in languages if interpreter(name)])
    while True:
        use = layers.available(states)
        launcher = SandboxLauncher(use, spares=0)
        try:
            await launcher.start()
            verdicts = await attack_all(launcher, chosen, installed, at_once=_BRIEF_AT_ONCE if brief else 1)
        except LaunchError as error:
            if Layer.NAMESPACES in use:  # a container may allow the trial of bubblewrap and not what we need of it
                states = tuple(_refused(state, error) if state.layer is Layer.NAMESPACES else state for state in states)
                continue
            verdicts = (Verdict("launch", "sh", Outcome.UNTRIED, str(error), Level.L1),)
        finally:
            await launcher.close()
        return Report(level_reached(launcher.level, verdicts), launcher.level, states, verdicts)


async def proven_launcher(minimum: Level, *, memory_bytes: int | None = None) -> tuple[SandboxLauncher, Report]:
    """What the daemon starts with: a launcher whose level was proven, or IsolationError when that is too low.

    `memory_bytes` is what all contexts together may use.
    """
    report = await probe(brief=True, languages=("python",))  # all languages share one sandbox
    if report.level < minimum:
        reasons = [
            *(f"{state.layer}: {state.detail}, to get it {state.remedy}" for state in report.missing),
            *(f"{v.attack} ({v.language}) got through: {v.detail}" for v in report.broken),
            *(f"no attack in {language} could be tried: {reason}" for language, reason in report.unable.items()),
        ]
        raise IsolationError(
            f"tenants' code needs isolation {minimum.name}, this machine gives {report.level.name}; "
            + "; ".join(reasons)
        )
    launcher = SandboxLauncher(layers.available(report.layers), proven=report.level, memory_bytes=memory_bytes)
    await launcher.start()
    return launcher, report


def _refused(state: LayerState, error: LaunchError) -> LayerState:
    remedy = state.remedy or "allow what the message names; in a container: --security-opt seccomp=unconfined"
    return replace(state, available=False, detail=str(error), remedy=remedy)


def level_reached(offered: Level, verdicts: Iterable[Verdict]) -> Level:
    """The highest level, not above `offered`, of which every promise was kept and proven."""
    found = tuple(verdicts)
    tried = {verdict.attack for verdict in found if verdict.outcome is not Outcome.UNTRIED}
    not_held = [v.stopped_from for v in found if v.outcome is Outcome.THROUGH or v.attack not in tried]
    return max(
        (level for level in Level if level <= offered and not any(promise <= level for promise in not_held)),
        default=Level.L0,
    )


async def attack_all(
    launcher: SandboxLauncher, attacks: Iterable[Attack], languages: Iterable[str], *, at_once: int = 1
) -> tuple[Verdict, ...]:
    """Run the attacks, `at_once` side by side, each in its own context, beside a neighbour that must not notice."""
    spoken = tuple(languages)
    turns = asyncio.Semaphore(at_once)
    async with victims(launcher) as prey:

        async def take_turn(attack: Attack, language: str) -> Verdict:
            async with turns:
                return await run_attack(launcher, attack, language, prey)

        return tuple(
            await asyncio.gather(
                *(
                    take_turn(attack, language)
                    for attack in attacks
                    for language in spoken
                    if language in attack.languages
                )
            )
        )


async def run_attack(launcher: SandboxLauncher, attack: Attack, language: str, prey: Victims) -> Verdict:
    spec = LaunchSpec(
        tenant="attacker",
        argv=(*await asyncio.to_thread(_command, language), attack.name, prey.weapons),
        env=prey.targets,
        limits=LIMITS,
        template="python" if language == "python" else None,
    )
    try:
        child = await launcher.launch(spec)
    except ProgramError as error:
        return Verdict(attack.name, language, Outcome.UNTRIED, str(error), attack.stopped_from)
    outcome, detail = await _watch(attack, child)
    if outcome is Outcome.STOPPED and not await _silent(child):
        outcome, detail = Outcome.THROUGH, "a process of the context lives on"
    child.close()
    if outcome is Outcome.STOPPED and not await still_answers(prey):
        outcome, detail = Outcome.THROUGH, "the neighbour does not answer any more"
    return Verdict(attack.name, language, outcome, detail, attack.stopped_from)


def interpreter(language: str) -> str | None:
    """The program that runs this language here, None when it is not installed."""
    return "python" if language == "python" else shutil.which(_INTERPRETERS[language])


def _command(language: str) -> tuple[str | Path, ...]:
    if language == "python":
        return ("python", "-I", PROGRAMS[language])
    return (Path(interpreter(language) or language).resolve(), PROGRAMS[language])


async def _watch(attack: Attack, child: Child) -> tuple[Outcome, str]:
    """Run the attack to its end. Ensures: the context has been ended."""
    loop = asyncio.get_running_loop()
    log = bytearray()
    loop.add_reader(child.log_fd, _keep_end, child.log_fd, log)
    try:
        outcome, detail = await asyncio.wait_for(_judge(attack, child), _ATTACK_TIMEOUT_S)
    except TimeoutError:
        outcome, detail = Outcome.THROUGH, f"no verdict in {_ATTACK_TIMEOUT_S:g} s"
    finally:
        await child.kill()
        loop.remove_reader(child.log_fd)
    if outcome is Outcome.UNTRIED:
        _keep_end(child.log_fd, log)
        said = log.decode(errors="replace").strip()
        detail = f"{detail}{': ' + said if said else ''}"
    return outcome, detail


async def _judge(attack: Attack, child: Child) -> tuple[Outcome, str]:
    lines = _Lines(child.reader)
    if await lines.next() != "trying":
        return Outcome.UNTRIED, f"its program {_how(await child.wait())}"
    line = await lines.next()
    if attack.name == "ignore_terminate":
        await child.terminate()
        return Outcome.STOPPED, "killed after it had ignored the request to stop"
    if line.startswith("through:"):
        return Outcome.THROUGH, line.removeprefix("through:").strip()
    if line.startswith("stopped:"):
        return Outcome.STOPPED, line.removeprefix("stopped:").strip()
    ended = await child.wait()
    if attack.may_die:
        return Outcome.STOPPED, _how(ended)
    return Outcome.UNTRIED, f"gave no verdict and {_how(ended)}"  # an attack that does not work proves nothing


def _how(ended: Exit) -> str:
    if ended.oom:
        return "was killed for its memory"
    return f"ended with signal {ended.signal}" if ended.signal else f"ended with status {ended.status}"


class _Lines:
    """What a context says, line by line; "" at the end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = ""

    async def next(self) -> str:
        while "\n" not in self._rest:
            part = await _receive(self._fd)
            if not part:
                return ""
            self._rest += part
        line, _, self._rest = self._rest.partition("\n")
        return line


async def _receive(fd: int) -> str:
    """What comes next on the pipe, or "" at its end."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(fd, arrived.set)
    try:
        await arrived.wait()
        return os.read(fd, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(fd)


def _keep_end(fd: int, log: bytearray) -> None:
    """Take what is printed: a full pipe would stop the attack, and that is not how it should be stopped."""
    with contextlib.suppress(BlockingIOError):
        text = os.read(fd, 1 << 16)
        if not text:  # all of it has ended, and would be told without end
            asyncio.get_running_loop().remove_reader(fd)
        log += text
        del log[:-_KEPT_LOG_BYTES]


async def _silent(child: Child) -> bool:
    """Whether nobody holds the other end of the reply pipe: the one proof that no process was left behind."""
    try:
        while await asyncio.wait_for(_receive(child.reader), _EOF_TIMEOUT_S):
            continue
    except TimeoutError:
        return False
    return True
