"""The latest results as Markdown, for docs/performance.md: `python -m bench.tools.markdown [NAME ...]`."""

import argparse
from collections.abc import Iterator

from bench.tools.budgets import budget_rows
from bench.tools.report import Table, load, show


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tools.markdown", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benches; all that have results, and the budgets")
    names = parser.parse_args().names
    latest = load()
    for name in names or latest:
        machine = latest[name]["machine"]
        print(f"\n## {name}, {machine['date']}, {machine['cores']} cores, load {machine['load']:.1f}")
        for title, rows in latest[name]["tables"].items():
            print(f"\n{title}:\n")
            print("\n".join(markdown(rows)))
    if not names:
        print("\n## budgets\n")
        print("\n".join(markdown(budget_rows())))


def markdown(rows: Table) -> Iterator[str]:
    """Columns of numbers to the right."""
    if rows:
        numeric = [all(isinstance(row[name], int | float) for row in rows) for name in rows[0]]
        yield f"| {' | '.join(rows[0])} |"
        yield f"|{'|'.join('---:' if is_number else '---' for is_number in numeric)}|"
        for row in rows:
            yield f"| {' | '.join(_cell(value) for value in row.values())} |"


def _cell(value: object) -> str:
    shown = show(value)
    return f"{shown:,}" if isinstance(shown, int | float) else str(shown)


if __name__ == "__main__":
    main()
