"""A PostgreSQL of one's own: started, shared and stopped without an administrator.

The server is unmodified PostgreSQL from a wheel, from `RELEVO_PG_BIN` or from
Debian's packages. Several processes share one server, the last one out stops
it, and who lives is asked of the kernel's file locks, never of process ids. This room
creates no schema and no role: that is `relevo.db.migrate`.
"""

from relevo.db.embedded.errors import EmbeddedError
from relevo.db.embedded.paths import default_root
from relevo.db.embedded.server import Embedded

__all__ = ["Embedded", "EmbeddedError", "default_root"]
