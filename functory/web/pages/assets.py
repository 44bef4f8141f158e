"""Templates, styles and scripts: read and compiled once per process, served from memory.

Ensures: every template escapes by default, and a value that a page forgot to give is an error. The address of a static
file contains a hash of all of them, so a browser may keep it for ever.
"""

import asyncio
import functools
import hashlib
import mimetypes
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import DictLoader, Environment, StrictUndefined

from functory.web.pages import charts, inert_text, number_text
from vocabulary.states import state_word

_HERE: Final = Path(__file__).parent
_PIECE_S: Final = 0.001
"""How long a page may be rendered before others get a turn."""
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    content_type: str
    body: bytes


class Assets(NamedTuple):
    environment: Environment
    static: Mapping[str, StaticFile]
    digest: str

    def render_small(self, template: str, values: Mapping[str, Any]) -> str:
        """Render in one piece: for templates without a long table."""
        return self.environment.get_template(template).render(values)

    async def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Render in pieces; between them others have the event loop. The output of a macro is never split, so templates
        loop over the rows of long tables themselves."""
        parts = []
        ends_s = time.perf_counter() + _PIECE_S
        for part in self.environment.get_template(template).generate(values):
            parts.append(part)
            if time.perf_counter() > ends_s:
                await asyncio.sleep(0)
                ends_s = time.perf_counter() + _PIECE_S
        return "".join(parts)


@functools.cache
def load_assets() -> Assets:
    """Read and compile all files. It takes a tenth of a second, so call it off the event loop."""
    static = {
        path.name: StaticFile(_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "", path.read_bytes())
        for path in sorted((_HERE / "static").iterdir())
    }
    digest = hashlib.sha256(b"".join(file.body for file in static.values())).hexdigest()[:12]
    environment = _environment(digest)
    for name in environment.list_templates():
        environment.get_template(name)
    return Assets(environment, static, digest)


def _environment(digest: str) -> Environment:
    folder = _HERE / "templates"
    sources = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}
    environment = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        "count",
        "whole",
        "size",
        "micros",
        "seconds",
        "ago",
        "per_minute",
        "percent",
        "iso",
        "utc",
        "clock",
        "minute",
    ):
        environment.filters[name] = getattr(number_text, name)
    environment.filters["line"] = inert_text.line
    environment.filters["sentence"] = inert_text.sentence
    environment.filters["state_word"] = state_word
    environment.globals |= {
        "static": f"/ui/static/{digest}",
        "bars": charts.bars,
        "share_bar": charts.share_bar,
        "outcomes": charts.OUTCOMES,
    }
    return environment
