"""The kinds that one application declares."""

from relevo.model.errors import KindExists, UnknownKind
from relevo.model.kind import Kind


class Registry:
    """The kinds of one application, by name."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def add(self, kind: Kind) -> None:
        """Declare a kind.

        Raises:
            KindExists: The name has a handler already.
        """
        if kind.name in self._kinds:
            raise KindExists(kind=kind.name)
        self._kinds[kind.name] = kind

    def find(self, name: str) -> Kind | None:
        """Answer the kind of that name, or None."""
        return self._kinds.get(name)

    def get(self, name: str) -> Kind:
        """Answer the kind of that name.

        Raises:
            UnknownKind: Nobody has declared it.
        """
        if kind := self._kinds.get(name):
            return kind
        raise UnknownKind(kind=name)

    def names(self) -> list[str]:
        """Answer every kind's name, sorted."""
        return sorted(self._kinds)

    def kinds(self) -> list[Kind]:
        """Answer every kind, by name."""
        return [self._kinds[name] for name in self.names()]

    def kept(self) -> list[str]:
        """Answer the kinds whose failed jobs are kept until their owner is purged."""
        return sorted(name for name, kind in self._kinds.items() if kind.retention.failed is None)

    def queues(self) -> list[str]:
        """Answer every queue that some kind uses, sorted."""
        return sorted({kind.queue for kind in self._kinds.values()})
