"""A proxy between those who use the database and the database, which does what networks do.

Bytes pass unchanged until a fault is inflicted. Nothing here judges what comes of it.
"""

from faults.proxy.faults import BOTH, EVERYBODY, LASTING, Direction, Fault, Kind
from faults.proxy.proxy import Proxy, a_proxy

__all__ = ["BOTH", "EVERYBODY", "LASTING", "Direction", "Fault", "Kind", "Proxy", "a_proxy"]
