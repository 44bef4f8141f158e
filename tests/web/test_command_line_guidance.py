"""The command line against the service: it leads a newcomer to the next step."""

import pytest

from tests.support.terminal import Terminal
from tests.support.web import Site


async def test_a_type_that_workers_serve_needs_no_file(site: Site, terminal: Terminal) -> None:
    told = await terminal.run("job", "add", "resize", "x")
    assert "Register one: functory handler put resize FILE" in told
    assert "If workers serve it: functory handler put resize --lang worker" in told
    assert "resize: version 1 is active" in await terminal.run("handler", "put", "resize", "--lang", "worker")
    stored = (await site.get("/acme/handler/resize")).json["handler"]
    assert (stored["lang"], stored["body"]) == ("worker", "")
    assert "no handler" not in await terminal.run("job", "add", "resize", "x")


@pytest.mark.parametrize("options", [(), ("--lang", "python"), ("--lang", "http")])
async def test_another_handler_does(terminal: Terminal, options: tuple[str, ...]) -> None:
    told = await terminal.run("handler", "put", "resize", *options, status=2)
    assert "No FILE: give the code of the handler, or --lang worker if workers serve the type" in told
