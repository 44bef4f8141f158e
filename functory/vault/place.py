"""Where the keys for secrets are, by the settings."""

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from functory.config import Settings
from functory.vault.vault import KeyPlace

_BESIDE: Final = "secrets.key"


def key_place(settings: Settings) -> KeyPlace:
    """The file that is named; otherwise one beside the embedded store, where every daemon of that store finds it. For a
    store on servers there is none: daemons that each made one could not read what the others sealed."""
    if settings.secrets_key_file:
        return KeyPlace(Path(settings.secrets_key_file))
    url = urlsplit(settings.store_url)
    if url.scheme != "sqlite":
        return KeyPlace(None)
    file = Path("/" + unquote(url.path).lstrip("/"))
    return KeyPlace(file.parent / _BESIDE, may_make=True)
