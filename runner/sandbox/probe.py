"""Attacks the sandbox of this machine and says which level was really reached.

The level that counts is not what the machine offers but what held: an attack that gets through although the
level promises to stop it, lowers the level until it fits. What a level does not promise is listed, never left
out.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from runner.errors import IsolationError, LaunchError
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one attack went; `stopped_from` is the lowest level that promises to stop it."""

    attack: str
    language: str
    stopped: bool
    detail: str
    stopped_from: Level


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
        return tuple(v for v in self.verdicts if not v.stopped and v.stopped_from <= self.offered)

    @property
    def not_promised(self) -> tuple[Verdict, ...]:
        """Attacks that the level reached does not promise to stop, with how they went."""
        return tuple(v for v in self.verdicts if v.stopped_from > self.level)

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
            verdicts = (Verdict("launch", "sh", False, str(error), Level.L1),)
        finally:
            await launcher.close()
        return Report(level_reached(launcher.level, verdicts), launcher.level, states, verdicts)


async def proven_launcher(minimum: Level) -> tuple[SandboxLauncher, Report]:
    """What the daemon starts with: a launcher whose level was proven, or IsolationError when that is too low."""
    report = await probe(brief=True, languages=("python",))  # all languages share one sandbox
    if report.level < minimum:
        raise IsolationError(
            f"tenants' code needs isolation {minimum.name}, this machine gives {report.level.name}; "
            + "; ".join(f"{state.layer}: {state.detail}, to get it {state.remedy}" for state in report.missing)
            + "; ".join(f"{v.attack} ({v.language}) got through: {v.detail}" for v in report.broken)
        )
    launcher = SandboxLauncher(layers.available(report.layers), proven=report.level)
    await launcher.start()
    return launcher, report


def _refused(state: LayerState, error: LaunchError) -> LayerState:
    remedy = state.remedy or "allow what the message names; in a container: --security-opt seccomp=unconfined"
    return replace(state, available=False, detail=str(error), remedy=remedy)


def level_reached(offered: Level, verdicts: Iterable[Verdict]) -> Level:
    """The highest level, not above `offered`, of which every promise was kept."""
    through = [verdict.stopped_from for verdict in verdicts if not verdict.stopped]
    return max(
        (level for level in Level if level <= offered and not any(promise <= level for promise in through)),
        default=Level.L0,
    )


async def attack_all(
    launcher: SandboxLauncher, attacks: Iterable[Attack], languages: Iterable[str], *, at_once: int = 1
) -> tuple[Verdict, ...]:
    """Run the attacks, so many at once, each in a context of its own, beside a neighbour that must not notice."""
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
        argv=await asyncio.to_thread(_command, language, attack.name),
        env=prey.targets,
        limits=LIMITS,
        readable=(PROGRAMS[language], prey.setuid_program),
        template="python" if language == "python" else None,
    )
    loop = asyncio.get_running_loop()
    child = await launcher.launch(spec)
    try:
        loop.add_reader(child.log_fd, _drain, child.log_fd)
        stopped, detail = await asyncio.wait_for(_judge(attack, child), _ATTACK_TIMEOUT_S)
    except TimeoutError:
        stopped, detail = False, f"no verdict in {_ATTACK_TIMEOUT_S:g} s"
    finally:
        await child.kill()
        loop.remove_reader(child.log_fd)
    if stopped and not await _silent(child):
        stopped, detail = False, "a process of the context lives on"
    child.close()
    if stopped and not await still_answers(prey):
        stopped, detail = False, "the neighbour does not answer any more"
    return Verdict(attack.name, language, stopped, detail, attack.stopped_from)


def interpreter(language: str) -> str | None:
    """The program that runs this language here, None when it is not installed."""
    return "python" if language == "python" else shutil.which(_INTERPRETERS[language])


def _command(language: str, name: str) -> tuple[str, ...]:
    program = interpreter(language) or language
    return (program, *(("-I",) if language == "python" else ()), str(PROGRAMS[language]), name)


async def _judge(attack: Attack, child: Child) -> tuple[bool, str]:
    line = await _line(child.reader)
    if attack.name == "ignore_terminate":
        await child.terminate()
        return True, "killed after it had ignored the request to stop"
    if line.startswith("through:"):
        return False, line.removeprefix("through:").strip()
    if line.startswith("stopped:"):
        return True, line.removeprefix("stopped:").strip()
    ended = await child.wait()
    if attack.may_die:
        return True, _how(ended)
    return False, f"no verdict: {_how(ended)}"  # an attack that does not work proves nothing


def _how(ended: Exit) -> str:
    if ended.oom:
        return "killed for its memory"
    return f"ended with signal {ended.signal}" if ended.signal else f"ended with status {ended.status}"


async def _line(fd: int) -> str:
    """What the context says first, or "" at the end of the pipe."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(fd, arrived.set)
    try:
        await arrived.wait()
        return os.read(fd, 4096).decode(errors="replace").partition("\n")[0]
    finally:
        loop.remove_reader(fd)


def _drain(fd: int) -> None:
    """Throw away what is printed: a full pipe would stop the attack, and that is not how it should be
    stopped.
    """
    with contextlib.suppress(BlockingIOError):
        os.read(fd, 1 << 16)


async def _silent(child: Child) -> bool:
    """Whether nobody holds the other end of the reply pipe: the one proof that no process was left behind."""
    try:
        while await asyncio.wait_for(_line(child.reader), _EOF_TIMEOUT_S):
            continue
    except TimeoutError:
        return False
    return True
