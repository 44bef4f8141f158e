"""`/docs`: the interface described on one page. Rendered without scripts or anything from other sites."""

import hashlib
from base64 import b64encode
from typing import Any, Final

from jinja2 import Environment

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
code { font-family: ui-monospace, monospace } h2 { margin-top: 2.5rem; text-transform: capitalize }
details { border: 1px solid #d0d7de; border-radius: 6px; margin: .4rem 0; padding: .4rem .8rem }
summary { cursor: pointer } .m { display: inline-block; min-width: 4.5rem; font-weight: 600 }
table { border-collapse: collapse; margin: .5rem 0 } td, th { text-align: left; padding: .1rem 1rem .1rem 0 }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } details { border-color: #30363d } }
"""

_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Functory HTTP interface</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{{ style }}</style></head><body>
<h1>Functory {{ info.version }}</h1>
<p>Send your key as <code>Authorization: Bearer fk_…</code>. Errors are
<code>{"error": {"code", "message", "detail"}}</code>. For machines: <a href="/openapi.json">openapi.json</a>.</p>
{% for tag, operations in groups.items() %}<h2>{{ tag }}</h2>
{% for it in operations %}<details><summary><span class="m">{{ it.method }}</span> <code>{{ it.path }}</code>
— {{ it.summary }}</summary>
{% if it.description %}<p>{{ it.description }}</p>{% endif %}
{% if it.parameters %}<table><tr><th>Parameter</th><th>In</th><th>Schema</th></tr>
{% for p in it.parameters %}<tr><td><code>{{ p.name }}</code>{{ " *" if p.required }}</td><td>{{ p.in }}</td>
<td><code>{{ p.schema|tojson }}</code></td></tr>{% endfor %}</table>{% endif %}
{% if it.bodies %}<p>Body: {% for kind in it.bodies %}<code>{{ kind }}</code> {% endfor %}</p>{% endif %}
</details>
{% endfor %}{% endfor %}</body></html>
"""

DOCS_POLICY: Final = (
    "default-src 'none'; frame-ancestors 'none'; style-src 'sha256-"
    + b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)
"""Only the page's own style is allowed, by its hash."""


def build_docs(openapi: dict[str, Any]) -> bytes:
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in openapi["paths"].items():
        for method, it in operations.items():
            bodies = list(it.get("requestBody", {}).get("content", {}))
            groups.setdefault(it["tags"][0], []).append(
                {**it, "path": path, "method": method.upper(), "bodies": bodies}
            )
    template = Environment(autoescape=True).from_string(_PAGE)
    return template.render(style=_STYLE, info=openapi["info"], groups=groups).encode()
