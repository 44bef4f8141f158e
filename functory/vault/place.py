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
    beside = key_file_beside(settings.store_url)
    return KeyPlace(beside, may_make=beside is not None)


def key_file_beside(store_url: str) -> Path | None:
    """Where the keys are if nobody says where; None for a store on servers."""
    url = urlsplit(store_url)
    if url.scheme != "sqlite":
        return None
    return Path("/" + unquote(url.path).lstrip("/")).parent / _BESIDE
