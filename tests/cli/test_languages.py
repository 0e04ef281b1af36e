"""Which language a reader gets, and how errors are said in it."""

import pytest

from relevo.errors import RelevoError
from relevo.i18n import choose_language, translator
from relevo.model.errors import InvalidOption


@pytest.mark.parametrize(
    ("given", "environment", "language"),
    [
        ("es", {"RELEVO_LANG": "pt"}, "es"),
        (None, {"RELEVO_LANG": "pt", "LC_ALL": "es_PE.UTF-8"}, "pt"),
        (None, {"LC_ALL": "es_PE.UTF-8", "LANG": "pt_BR"}, "es"),
        (None, {"LC_MESSAGES": "pt_BR.UTF-8", "LANG": "es_ES"}, "pt"),
        (None, {"LC_ALL": "", "LANG": "es_ES.UTF-8"}, "es"),
        ("pt-BR", {}, "pt"),
        ("PT_br.utf8", {}, "pt"),
        (None, {"LC_ALL": "C.UTF-8", "LANG": "es_ES.UTF-8"}, "en"),
        (None, {"LANG": "de_DE.UTF-8"}, "en"),
        ("estonian", {}, "en"),
        (None, {}, "en"),
    ],
)
def test_the_first_that_says_a_language_decides(
    given: str | None, environment: dict[str, str], language: str
) -> None:
    assert choose_language(given, environment) == language


def test_an_error_is_said_with_its_sentences_and_its_values() -> None:
    error = InvalidOption(
        option="queues", value=(), why="a worker serves at least one", next="name a queue"
    )

    assert translator("es").error(error) == (
        "queues no puede ser (): un worker atiende al menos una; indique una cola"
    )
    assert str(error) == "queues cannot be (): a worker serves at least one; name a queue"


def test_a_name_that_somebody_chose_is_never_translated() -> None:
    class Named(RelevoError):
        template = "%(name)s"

    assert translator("es").error(Named(name="failed")) == "failed"


def test_a_package_without_catalogue_is_read_in_english() -> None:
    assert translator("es", "relevo.model").gettext("no such text") == "no such text"
