"""An environment for each peer, made when it is first needed and kept outside the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.contenders import Contender

PATIENCE = 600


class Unavailable(Exception):
    """A contender cannot be measured here; its text says why."""


def default_cache() -> Path:
    """Answer the folder that keeps environments and results."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "relevo-bench"


def python_for(contender: Contender, cache: Path) -> Path:
    """Answer the Python that a contender's driver runs on, installing what it needs.

    Args:
        contender: Whose.
        cache: Where environments are kept.

    Raises:
        Unavailable: There is no such Python, or something cannot be installed.
    """
    if not contender.requirements:
        return Path(sys.executable)
    environment = cache / "venvs" / contender.name
    python, record = environment / "bin" / "python", environment / "requirements.txt"
    wanted = "\n".join(contender.requirements)
    if record.exists() and record.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    shutil.rmtree(environment, ignore_errors=True)
    base = _find_python(contender.python)
    _run([base, "-m", "venv", "--without-pip", str(environment)])
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", *contender.requirements])
    # Written last: an environment that was broken off is made again.
    record.write_text(wanted, encoding="utf-8")
    return python


def _find_python(oldest: tuple[int, int]) -> str:
    given = os.environ.get("BENCH_PYTHON")
    names = [f"python3.{minor}" for minor in (14, 13, 12, 11)]
    for name in ([given] if given else []) + [sys.executable, *names]:
        # A shim of a version manager may be there without the Python that it stands for.
        code = f"import sys; sys.exit(sys.version_info < {oldest})"
        if (
            shutil.which(name)
            and not subprocess.run(  # noqa: S603 -- a Python of this machine
                [name, "-c", code], capture_output=True, check=False
            ).returncode
        ):
            return name
    version = ".".join(map(str, oldest))
    raise Unavailable(f"needs Python {version}, and none is on the PATH; name it in BENCH_PYTHON")


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(  # noqa: S603 -- venv and pip with our own arguments
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(" ".join(str(error).split())) from error
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
        raise Unavailable((said or ended.stderr.strip().splitlines() or ["no reason given"])[-1])
