"""The command on a terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from real_command import COMMAND, PATIENCE, Command

_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_a_terminal(command: Command, *words: str, columns: int, code: int = 0) -> str:
    """What the command writes on a terminal, without its styles."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [COMMAND, *words],
        env={**command.environment, "TERM": "xterm-256color"},
        stdin=follower,
        stdout=follower,
        stderr=subprocess.DEVNULL,
    )
    os.close(follower)
    said = b""
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        while True:
            try:
                piece = terminal.read(4096)
            except OSError:  # Linux says so when the last writer has closed it.
                break
            if not piece:
                break
            said += piece
    assert process.wait(PATIENCE) == code
    return _STYLE.sub("", said.decode().replace("\r\n", "\n"))


def answering(command: Command, typed: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command where somebody types what it asks for, on a terminal."""
    leader, follower = pty.openpty()
    try:
        os.write(leader, typed.encode())
        return subprocess.run(
            [COMMAND, *words],
            env=command.environment,
            stdin=follower,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(leader)
        os.close(follower)


def letters(text: str) -> str:
    """The text without what a break of its lines adds or takes."""
    return "".join(text.split())
