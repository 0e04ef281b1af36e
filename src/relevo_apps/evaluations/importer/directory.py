"""Know everybody an import may mean: the people of the file and those of the database.

The file wins over the database for the people and the columns that it has.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from relevo_apps.evaluations.importer.problems import ProblemKind
from relevo_apps.evaluations.model.people import KnownPerson, PersonRecord
from relevo_apps.evaluations.model.text import address_key, fold


class Directory:
    """Names, addresses and states by external id, as they would be after the import.

    Args:
        records: The rows of the file.
        known: Everybody in the database.
        columns: The columns that the file has.
    """

    def __init__(
        self,
        records: Sequence[PersonRecord],
        known: Iterable[KnownPerson],
        columns: frozenset[str],
    ) -> None:
        self.known = {person.external_id: person for person in known}
        self.names = {person.external_id: person.full_name for person in self.known.values()}
        self.active = {person.external_id: person.active for person in self.known.values()}
        addresses = {person.external_id: person.email for person in self.known.values()}
        for record in records:
            self.names[record.external_id] = record.full_name
            if "active" in columns or record.external_id not in self.known:
                self.active[record.external_id] = record.active
            if "email" in columns:
                addresses[record.external_id] = record.email
        self._by_address: dict[str, set[str]] = defaultdict(set)
        for external_id, email in addresses.items():
            if email:
                self._by_address[address_key(email)].add(external_id)

    def find(self, reference: str) -> str | ProblemKind:
        """Answer the external id that a reference means, or why it means none.

        Args:
            reference: An external id or an address.
        """
        if reference in self.names:
            return reference
        people = self._by_address.get(address_key(reference), set())
        if not people:
            return ProblemKind.MANAGER_UNKNOWN
        return next(iter(people)) if len(people) == 1 else ProblemKind.MANAGER_AMBIGUOUS

    def is_name_of(self, text: str, external_id: str) -> bool:
        """Say whether `text` is how the person is called.

        Args:
            text: What stood in the manager's column.
            external_id: Whom the column with the manager's address names.
        """
        return fold(text) == fold(self.names[external_id])

    def show(self, external_id: str) -> str:
        """Answer the name and the id of a person, for a report.

        Args:
            external_id: The person.
        """
        return f"{self.names[external_id]} ({external_id})"
