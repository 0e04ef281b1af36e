"""Let a socket lose every packet that comes for it, before TCP could acknowledge it.

A filter of the kernel's does it, for which nobody has to be root. What the other end sends,
keep-alive probes and its farewell included, stays without an answer.
"""

import ctypes
import socket
import struct

SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27
RETURN = 0x06

# One instruction: keep 0 bytes.
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", RETURN, 0, 0, 0))
_PROGRAM = struct.pack("HP", 1, ctypes.addressof(_DROP))


def make_deaf(end: socket.socket) -> None:
    """Lose everything that arrives from now on."""
    end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, _PROGRAM)


def make_hear(end: socket.socket) -> None:
    """Hear again what is sent, or sent again; find out soon whether anybody is still there."""
    end.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
    for option, value in (
        (socket.TCP_KEEPIDLE, 1),
        (socket.TCP_KEEPINTVL, 1),
        (socket.TCP_KEEPCNT, 3),
    ):
        end.setsockopt(socket.IPPROTO_TCP, option, value)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
