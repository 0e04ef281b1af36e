"""Whatever evaluation cycles say to people, they say in three languages."""

import pytest
from evaluation_texts import texts

from relevo.i18n import translator

PACKAGE = "relevo_apps.evaluations"


@pytest.mark.parametrize("language", ["es", "pt"])
def test_every_text_is_translated(language: str):
    known = translator(language, PACKAGE).catalogues[0].texts

    assert sorted(text for text, _ in texts() if text not in known) == []


@pytest.mark.parametrize("language", ["es", "pt"])
def test_no_translation_has_outlived_its_text(language: str):
    known = translator(language, PACKAGE).catalogues[0].texts

    assert sorted(set(known) - {text for text, _ in texts()}) == []
