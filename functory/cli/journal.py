"""`functory journal cat | verify | stats DIR`: show a journal directory. Reads only, and takes no lock."""

import argparse
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from functory.cli.commands import Commands
from functory.cli.table import render_table
from functory.errors import InvalidConfig, InvalidInput
from functory.transfer.backup_layout import IDENTITY, journals_in, require_identity
from journal import OsDisk, Position, Record
from journal.format import decode_records
from journal.inspect import SegmentReport, batches, is_journal, read_position, reports, set_aside


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("journal", help="look into a journal directory")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    cat = actions.add_parser("cat", help="list the lines")
    cat.add_argument("--jobtype", help="only this tenant-type")
    cat.add_argument("--unread", action="store_true", help="only what the store has not taken in yet")
    cat.set_defaults(run=run_cat)
    verify = actions.add_parser("verify", help="look for damage; exits 1 if there is any")
    verify.set_defaults(run=run_verify)
    stats = actions.add_parser("stats", help="one row for each segment")
    stats.set_defaults(run=run_stats)
    for action in (cat, verify, stats):
        action.add_argument("directory", type=Path, metavar="DIR")
        action.add_argument("--json", action="store_true", help="one JSON object a line")


def run_cat(arguments: argparse.Namespace) -> int:
    disk = open_disk(arguments.directory)
    start = read_position(disk) if arguments.unread else Position(0, 0, 0)
    for record in _records(disk, start):
        if arguments.jobtype in (None, record.jobtype):
            print(_as_json(record) if arguments.json else f"{record.id}|{record.jobtype}|{printable(record.payload)}")
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    disk = open_disk(arguments.directory)
    is_damaged = False
    lines = segments = 0
    for report in reports(disk):
        segments += not report.is_lost
        lines += report.lines
        is_damaged |= report.is_damaged
        for finding in _findings(report):
            print(json.dumps(finding) if arguments.json else "{segment}  {what}  {offset}..{end}".format(**finding))
    for name in set_aside(disk):
        is_damaged |= ".damaged" in name
        what = "set aside as damaged" if ".damaged" in name else "a torn write, set aside"
        print(json.dumps({"file": name, "what": what}) if arguments.json else f"{name}  {what}")
    if IDENTITY in disk.names():  # a daemon's
        try:
            require_identity(arguments.directory)
        except InvalidConfig as error:
            is_damaged = True
            print(json.dumps({"file": IDENTITY, "what": str(error)}) if arguments.json else error)
    if not arguments.json:
        verdict = "DAMAGED" if is_damaged else "no damage"
        print(f"{segments:,} segments, {lines:,} lines: {verdict}")
    return 1 if is_damaged else 0


def run_stats(arguments: argparse.Namespace) -> int:
    disk = open_disk(arguments.directory)
    position = read_position(disk)
    rows = [_stats_row(report, position) for report in reports(disk)]
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    headers = ["segment", "begun", "sysid", "bytes", "batches", "lines", "torn", "state"]
    print(render_table(headers, [list(row.values()) for row in rows]))
    print(f"\nread position: segment {position.segment}, offset {position.offset:,}, line {position.line}")
    return 0


def open_disk(directory: Path) -> OsDisk:
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    disk = OsDisk(directory)
    names = disk.names()
    if IDENTITY not in names and not is_journal(names):
        within = [str(path) for path in journals_in(directory)]
        advice = f"; did you mean {' or '.join(within)}?" if within else ""
        raise InvalidInput(f"{directory} is not a journal{advice}")
    return disk


def printable(payload: bytes) -> str:
    """Text in which everything that could move a cursor, break the line or hide is escaped."""
    text = payload.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _records(disk: OsDisk, start: Position) -> Iterator[Record]:
    for segment, frame in batches(disk):
        if (segment, frame.end) <= (start.segment, start.offset):
            continue
        is_partly_read = (segment, frame.offset) == (start.segment, start.offset)
        yield from decode_records(frame)[start.line if is_partly_read else 0 :]


def _as_json(record: Record) -> str:
    try:
        payload = {"payload": record.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": b64encode(record.payload).decode()}
    note = {"note": record.note} if record.note else {}
    return json.dumps({"id": record.id, "jobtype": record.jobtype, **payload, **note, **dict(record.attributes)})


def _findings(report: SegmentReport) -> Iterator[dict[str, object]]:
    name = f"segment {report.number}"
    for damage in report.damages:
        what = "lost: the file is gone, with lines that were not read" if report.is_lost else "damage"
        yield {"segment": name, "what": what, "offset": damage.offset, "end": damage.end}
    if report.torn_bytes and not report.is_damaged:
        what = "written and not acknowledged (a torn write, or one under way)"
        yield {"segment": name, "what": what, "offset": report.end, "end": report.size_bytes}


def _stats_row(report: SegmentReport, position: Position) -> dict[str, object]:
    state = "unread"
    if report.is_lost:
        state = "lost"
    elif report.is_damaged:
        state = "damaged"
    elif (report.number, report.end) <= (position.segment, position.offset):
        state = "read"
    elif report.number == position.segment:
        state = "reading"
    return {
        "segment": report.number,
        "begun": report.header.date if report.header else "-",
        "sysid": report.header.sysid if report.header else "-",
        "bytes": report.size_bytes,
        "batches": report.batches,
        "lines": report.lines,
        "torn": report.torn_bytes,
        "state": state,
    }
