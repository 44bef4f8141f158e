"""What a spawner does of a context's program before it forks. In a process of its own: it changes the interpreter."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[3]
PREPARED = """
import sys
seen = [__name__, sys.argv[1:]]
def warm_up():
    seen.append("warm")
def prepare():
    seen.append(sys.argv[1:])
    return lambda: print(seen, sys.modules["__main__"].__file__ == sys.argv[0])
"""


def in_a_spawner(program: Path, steps: str) -> str:
    text = f"""
        import sys
        from runner.sandbox.inner.programs import Programs
        known, path = Programs(), {str(program)!r}
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(text) + dedent(steps)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_what_a_program_defines_is_done_once_and_shared(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PREPARED)
    said = in_a_spawner(
        program,
        """
        own = list(sys.argv)
        loaded = known.load([path, "a"])
        assert sys.argv == own and known.load([path, "b"]) is loaded
        loaded.prepared([path, "b"])()
        """,
    )
    assert said == "['prepared', ['a'], 'warm', ['b']] True\n"


def test_a_program_without_a_prepare_is_run_by_its_context_only(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print(__name__, sys.argv[1:])\n")
    said = in_a_spawner(program, 'go = known.load([path, "a"]).prepared([path, "b"]); print("forked"); go()')
    assert said == "forked\n__main__ ['b']\n"


def test_a_program_that_fails_is_left_to_its_context(tmp_path: Path) -> None:
    """There it is told as what it is; a spawner that ended would take all contexts with it."""
    program = tmp_path / "program.py"
    program.write_text("def prepare(): ...\nif prepare: raise LookupError('not here')\n")
    said = in_a_spawner(
        program,
        """
        go = known.load([path]).prepared([path])
        try:
            go()
        except LookupError as error:
            print(error)
        """,
    )
    assert said == "not here\n"


def test_a_program_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    program = tmp_path / "program.py"
    text = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        def warm_up():
            import other, types
            sys.modules["half"] = types.ModuleType("half")
            raise LookupError("not here")
        def prepare(): ...
    """
    program.write_text(dedent(text))
    said = in_a_spawner(
        program,
        """
        before = set(sys.modules), list(sys.path)
        known.load([path])
        print((set(sys.modules), sys.path) == before)
        """,
    )
    assert said == "True\n"


def test_a_program_that_changed_is_read_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print(1)\n")
    steps = """
        import os
        known.load([path]).prepared([path])()
        open(path, "w").write("print(2)\\n")
        os.utime(path, ns=(1, 1))
        known.load([path]).prepared([path])()
    """
    assert in_a_spawner(program, steps) == "1\n2\n"
