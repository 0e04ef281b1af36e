"""The errors of relevo: each says what happened, why, and what to do next.

One class per thing a caller would catch. An error carries its values as
attributes and its text as a template over them, so that the command line can
say the same sentence in Spanish and Portuguese. It never carries secrets or
payloads.
"""

from typing import ClassVar


class RelevoError(Exception):
    """The root of every error that relevo raises on purpose.

    Args:
        **fields: The values that the template names; each becomes an attribute.
    """

    template: ClassVar[str] = "relevo could not do what was asked"

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(self.template % fields)

    def __getattr__(self, name: str) -> object:
        """Answer a value at fault by its name in the template."""
        fields: dict[str, object] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(name)
