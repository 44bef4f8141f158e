"""A first handler to change: what `functory init` writes."""

from pathlib import Path
from typing import Final

from functory.errors import InvalidInput

_PROJECT: Final = """\
# The handler's fields, by the names that docs/handlers.md has. All may be left out.
timeout_s = 10
"""
_PYTHON: Final = '''\
import json

from greeting import greet


def handler(payload, ctx):
    """The payload is text. What is returned becomes the result, as JSON."""
    name = json.loads(payload).get("name")
    if not name:
        ctx.fail("name is missing", code=422)
    return {"message": greet(name)}
'''
_NODE: Final = """\
import { greet } from './greeting.mjs';

// The payload is text. What is returned becomes the result, as JSON.
export default (payload, ctx) => {
  const { name } = JSON.parse(payload);
  if (!name) ctx.fail('name is missing', 422);
  return { message: greet(name) };
};
"""
_SH: Final = """\
# The payload is on stdin. A line `S: code data` gives the exit code and the result.
. ./greeting.sh
read -r name || true
[ -n "$name" ] || { echo "S: 422 name is missing"; exit; }
echo "S: 200 $(greet "$name")"
"""
_PHP: Final = """\
<?php
// The payload is text. What is returned becomes the result, as JSON.
require_once __DIR__ . '/greeting.php';

$name = json_decode($payload)->name ?? '';
if ($name === '') {
    $ctx->fail('name is missing', 422);
}
return ['message' => greet($name)];
"""
_JSON_EXAMPLES: Final = {
    "examples/ada.payload": '{"name": "Ada"}\n',
    "examples/ada.expected": '{"message": "Hello, Ada!"}\n',
    "examples/nobody.payload": "{}\n",
    "examples/nobody.expected": '"name is missing"\n',
    "examples/nobody.exitcode": "422\n",
}
_FILES: Final[dict[str, dict[str, str]]] = {
    "python": {"main.py": _PYTHON, "greeting.py": 'def greet(name):\n    return f"Hello, {name}!"\n', **_JSON_EXAMPLES},
    "node": {
        "main.mjs": _NODE,
        "greeting.mjs": "export const greet = (name) => `Hello, ${name}!`;\n",
        **_JSON_EXAMPLES,
    },
    "sh": {
        "main.sh": _SH,
        "greeting.sh": 'greet() { printf "Hello, %s!" "$1"; }\n',
        "examples/ada.payload": "Ada\n",
        "examples/ada.expected": "Hello, Ada!\n",
        "examples/nobody.payload": "",
        "examples/nobody.expected": "name is missing\n",
        "examples/nobody.exitcode": "422\n",
    },
    "php": {
        "main.php": _PHP,
        "greeting.php": '<?php\nfunction greet(string $name): string\n{\n    return "Hello, $name!";\n}\n',
        **_JSON_EXAMPLES,
    },
}
LANGUAGES: Final = tuple(_FILES)


def write_first_handler(folder: Path, lang: str) -> list[str]:
    """Make the folder with a handler, a module beside it, and examples. Returns the names of the files. Raises
    InvalidInput if there is something in the folder already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and is not an empty folder: choose another name")
    files = {"functory.toml": _PROJECT, **_FILES[lang]}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(files)
