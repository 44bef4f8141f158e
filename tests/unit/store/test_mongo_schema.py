"""A changed layout of the MongoDB database has a new version, or an older daemon would use it and break promises."""

import hashlib
import json
from typing import Any, Final

from store.mongo.server import schema

DIGESTS: Final = {
    2: "4cde5a1764d7e22ed1ad08d04a5e95339587fcf13ebcdde1f7caf8a184a73619",
    3: "e7597476b8414e23189fae8821a8fa8d24646aa8ae62225dbf620d2942db9b04",
    4: "f9165075e9ec1968d8c40c05ab255279e56540c9caaaaef34ba40364dfad0359",
    5: "5cce84cad0089085a1306424c9a2377a1e0c1d76fbdee27fd7b68352760931e8",
    6: "f846ed61d9f8aabfbb5add40ac864313d522d725c1210cfb0cd6b52caa71d138",
    7: "f846ed61d9f8aabfbb5add40ac864313d522d725c1210cfb0cd6b52caa71d138",
}
"""Of the collections and indexes of each version. If yours differs, raise `VERSION` and add a row; never edit one of a
version that was released. 7 has other fields, in the same collections and indexes."""


class Names:
    """In place of a database: a collection is its name."""

    def __getitem__(self, name: str) -> str:
        return name


def layout() -> str:
    database: Any = Names()
    collections = vars(schema.Collections(database))
    indexes = {"jobs": schema.JOB_INDEXES, **schema.OTHER_INDEXES}
    documents = {name: [index.document for index in some] for name, some in indexes.items()}
    names = sorted(name for name in collections.values() if isinstance(name, str))
    return json.dumps([names, documents], default=dict, sort_keys=True)


def test_a_changed_layout_has_a_new_version() -> None:
    assert DIGESTS.get(schema.VERSION) == hashlib.sha256(layout().encode()).hexdigest(), layout()
