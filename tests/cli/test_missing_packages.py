"""A command whose packages are not installed says which extra brings them."""

from pathlib import Path

import pytest
from real_command import Command


@pytest.fixture
def without_mail(nowhere: Command, home: Path) -> Command:
    """The command where the packages of the extra `mail` cannot be imported."""
    packages = home / "packages"
    packages.mkdir()
    for name in ("aiolimiter", "aiosmtplib"):
        missing = f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n"
        (packages / f"{name}.py").write_text(missing, encoding="utf-8")
    nowhere.variables["PYTHONPATH"] = str(packages)
    return nowhere


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "Error: `relevo demo` needs a package that is not installed (aio"),
        ("es", "Error: `relevo demo` necesita un paquete que no está instalado (aio"),
        ("pt", "Erro: `relevo demo` precisa de um pacote que não está instalado (aio"),
    ],
)
@pytest.mark.parametrize("words", [(), ("--help",)])
def test_the_demo_without_its_extra_says_what_to_install(
    without_mail: Command, language: str, said: str, words: tuple[str, ...]
) -> None:
    ended = without_mail("--lang", language, "demo", *words)

    assert ended.returncode == 1
    assert ended.stderr.startswith(said)
    assert "pip install 'relevo[demo]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_and_the_other_commands_need_no_extra(without_mail: Command) -> None:
    assert "demo" in without_mail("--help").stdout
    assert without_mail("worker", "--help").returncode == 0
    assert without_mail("cycle", "--help").returncode == 0
