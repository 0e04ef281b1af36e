"""Say relevo's texts in the reader's language.

The English text is its own key. Each package keeps its translations beside its code,
in ``locale/es.po`` and ``locale/pt.po``; a text that has none is said in English.
"""

from relevo.i18n.languages import LANGUAGES, choose_language
from relevo.i18n.translator import Translator, translator

__all__ = ["LANGUAGES", "Translator", "choose_language", "translator"]
