"""The address of the server as one URI that every client reads the same way."""

import os
from collections.abc import Mapping
from urllib.parse import quote

from relevo.db.dsn import start_options
from relevo.db.embedded.cluster import SUPERUSER
from relevo.db.embedded.postmaster import Address


def build_dsn(
    address: Address, database: str, role: str | None, options: Mapping[str, str] | None
) -> str:
    """Write the URI, every part percent-encoded.

    Args:
        address: Where the server listens.
        database: The database's name.
        role: The role that the session takes at once.
        options: Settings that the session begins with.
    """
    settings = {**({} if role is None else {"role": role}), **(options or {})}
    given: dict[str, str | bytes] = {
        "host": os.fsencode(address.folder),
        "port": str(address.port),
    }
    if settings:
        given["options"] = " ".join(start_options(settings))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?{query}"
