"""Whatever the command may say, it can say in Spanish and Portuguese."""

from collections.abc import Iterator
from pathlib import Path

import command_texts as texts
import pytest
from babel.messages.pofile import read_po
from command_texts import Text

from relevo.cli.language import gettext, ngettext, speak
from relevo.cli.main import build_cli
from relevo.i18n.translator import read_catalogue
from relevo.integrations.smtp import BadMailSetting, settings_from_environment
from relevo_apps import main as composition

SPOKEN = ["es", "pt"]

# Only who programs with click, or debugs it, can meet these.
PROGRAMMERS = (
    "{editor}: ",
    "Value must be",
    "Could not determine",
    "No options defined",
    "Arguments take exactly",
    "Name '{name}'",
    "Boolean option",
    "Invalid start character",
    "Couldn't detect Bash",
    "Shell completion",
    "Unknown color",
    "Choice(",
    "Unknown standard stream",
)

# Said by a variable, so no literal stands in a call.
ELSEWHERE = {
    "free to join",
    "free to start or stop",
    "percent-encode @ : / ? # in the user and the password",
}


def ours() -> set[Text]:
    """Every text of the engine and its command."""
    cli = build_cli(app=composition.application, lines=composition.lines)
    of_click = {t for t in texts.clicks() if not t.english.startswith(PROGRAMMERS)} - {Text("d")}
    return {
        *texts.templates("relevo"),
        *texts.sources("relevo"),
        *texts.helps(cli),
        *texts.titles(),
        *of_click,
    }


def theirs() -> set[Text]:
    """Every text of the applications and their commands."""
    cli = build_cli(
        app=composition.application, lines=composition.lines, commands=composition.COMMANDS
    )
    return {
        *texts.templates("relevo_apps"),
        *texts.sources("relevo_apps"),
        *texts.helps(cli),
    } - ours()


def catalogues(language: str, *packages: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for package in packages:
        catalogue = read_catalogue(package, language)
        found |= catalogue.texts if catalogue else {}
    return found


def wrong(wanted: set[Text], said: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for text in sorted(wanted, key=lambda each: each.english):
        forms = said.get(text.english, ())
        sources = [text.english] if text.plural is None else [text.english, text.plural]
        if len(forms) != len(sources):
            yield f"{len(forms)} forms of {text.english!r}"
        for form, source in zip(forms, sources, strict=False):
            if texts.placeholders(form) - texts.placeholders(text.english + (text.plural or "")):
                yield f"{form!r} is filled with what {source!r} is not"
            if text.plural is None and texts.placeholders(form) != texts.placeholders(source):
                yield f"{form!r} is not filled as {source!r} is"
            if form.endswith(".") != source.endswith(".") or form[:1].isspace():
                yield f"{form!r} ends otherwise than {source!r}"


@pytest.mark.parametrize("language", SPOKEN)
def test_every_text_of_the_engine_is_translated_and_filled_alike(language: str) -> None:
    assert list(wrong(ours(), catalogues(language, "relevo"))) == []


@pytest.mark.parametrize("language", SPOKEN)
def test_every_text_of_the_applications_is_translated_and_filled_alike(language: str) -> None:
    said = catalogues(language, *composition.CATALOGUES, "relevo")

    assert list(wrong(theirs(), said)) == []


@pytest.mark.parametrize("language", SPOKEN)
@pytest.mark.parametrize("package", composition.CATALOGUES)
def test_what_two_catalogues_say_they_say_alike(language: str, package: str) -> None:
    house, theirs = catalogues(language, "relevo"), catalogues(language, package)

    assert {text: house[text] for text in house.keys() & theirs.keys()} == {
        text: theirs[text] for text in house.keys() & theirs.keys()
    }


@pytest.mark.parametrize("language", SPOKEN)
def test_no_translation_has_lost_its_text(language: str) -> None:
    known = {text.english for text in ours()} | ELSEWHERE

    assert set(catalogues(language, "relevo")) - known == set()


@pytest.mark.parametrize("language", SPOKEN)
def test_the_catalogues_are_sound(language: str) -> None:
    file = Path(composition.__file__).parent.parent / "relevo" / "locale" / f"{language}.po"

    with file.open("rb") as opened:
        catalogue = read_po(opened, locale=language, abort_invalid=True)

    assert [(message.id, errors) for message, errors in catalogue.check()] == []
    assert [message.id for message in catalogue if message.fuzzy and message.id] == []
    assert catalogue.obsolete == {}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RELEVO_SMTP_URL": "smtp://127.0.0.1"},
        {"RELEVO_SMTP_URL": "smtp://127.0.0.1", "RELEVO_SMTP_FROM": "nobody"},
        {"RELEVO_SMTP_URL": "smtp://127.0.0.1?verify=off", "RELEVO_SMTP_FROM": "hr@example.com"},
        {"RELEVO_SMTP_URL": "smtp://127.0.0.1?starttls=no", "RELEVO_SMTP_FROM": "hr@example.com"},
    ],
)
def test_a_wrong_mail_setting_is_told_in_texts_that_catalogues_have(
    environment: dict[str, str],
) -> None:
    known = {text.english for text in texts.sources("relevo")} | ELSEWHERE

    with pytest.raises(BadMailSetting) as refused:
        settings_from_environment(environment)

    assert {refused.value.problem, refused.value.remedy} <= known


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("es", {0: "trabajos se", 1: "trabajo se", 2: "trabajos se", 1000000: "trabajos se"}),
        ("pt", {0: "trabalho será", 1: "trabalho será", 2: "trabalhos serão"}),
        ("en", {0: "jobs are", 1: "job is", 2: "jobs are"}),
    ],
)
def test_a_number_takes_the_form_of_its_language(language: str, said: dict[int, str]) -> None:
    speak(["--lang", language], {}, [])
    try:
        for number, words in said.items():
            text = ngettext("%(count)d job is due now", "%(count)d jobs are due now", number)
            assert words in text % {"count": number}
    finally:
        speak([], {}, [])


def test_a_text_without_translation_is_said_in_english() -> None:
    speak(["--lang", "es"], {}, [])
    try:
        assert gettext("nobody has translated this") == "nobody has translated this"
    finally:
        speak([], {}, [])
