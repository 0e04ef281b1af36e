"""Names of people, teams and jobs in three languages, with the accents they have in life."""

from dataclasses import dataclass

from relevo_apps.evaluations.model.people import Language


@dataclass(frozen=True, slots=True)
class Names:
    """What people and jobs are called in one language.

    Attributes:
        first: Given names.
        last: Family names; in Spanish and Portuguese two of them are taken.
        departments: Teams.
        titles: Jobs, from the head of the organisation downwards.
        family_names: How many family names a person has.
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    departments: tuple[str, ...]
    titles: tuple[str, ...]
    family_names: int


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


NAMES = {
    Language.SPANISH: Names(
        _words(
            "María, José, Lucía, Martín, Sofía, Íñigo, Valentina, Joaquín, Camila, Andrés, "
            "Ángela, Tomás, Begoña, Agustín, Inés, Nicolás, Paula, Ramón, Rocío, Sebastián, "
            "Noelia, Víctor, Ximena, Óscar, María José, Juan Ignacio, Belén, Héctor"
        ),
        _words(
            "Álvarez, Núñez, García, Pérez, Muñoz, Gómez, Ibáñez, Fernández, Peña, Rodríguez, "
            "Castaño, Martínez, Quiñones, Sánchez, Ordóñez, Díaz, Zúñiga, Suárez, Yáñez, Vázquez, "
            "de la Cruz, Aguirre, Echeverría, Bañuelos, Ruiz, Torres"
        ),
        _words("Dirección, Finanzas, Operaciones, Tecnología, Ventas, Logística, Personas, Legal"),
        _words("Directora general, Director de área, Jefe de equipo, Especialista, Analista"),
        2,
    ),
    Language.PORTUGUESE: Names(
        _words(
            "João, Conceição, Antônio, Luísa, Mateus, Letícia, Caetano, Inês, Gonçalo, Beatriz, "
            "Flávio, Natália, Vinícius, Cláudia, Estêvão, Débora, Rogério, Mônica, Tiago, Júlia, "
            "Ana Clara, Caio, Fabrício, Zélia"
        ),
        _words(
            "Gonçalves, Araújo, Conceição, Simões, Magalhães, Assunção, Sá, Brandão, Guimarães, "
            "Leitão, Falcão, Falcão Lins, Silva, Souza, Müller, Antunes, Ribeiro, Bragança, "
            "dos Santos, Nóbrega, Patrício, Vilaça"
        ),
        _words("Diretoria, Finanças, Operações, Tecnologia, Vendas, Logística, Pessoas, Jurídico"),
        _words("Diretora-presidente, Diretor, Coordenadora, Especialista, Analista"),
        2,
    ),
    Language.ENGLISH: Names(
        _words(
            "Emma, Liam, Zoë, Noah, Chloë, Oliver, Amelia, Seán, Grace, Ethan, Renée, Jack, "
            "Siobhán, Henry, Ruby, Dylan, Ella, André, Maeve, Owen, Mary-Jane, Idris"
        ),
        _words(
            "Smith, O'Brien, Johnson, Brontë, Williams, McAllister, Brown, D'Arcy, Taylor, "
            "Smythe-Jones, Walker, Nguyen, Patel, Okafor, Hughes, Ó Briain, Fitzgerald, Young, "
            "Van Dyke, Zimmermann"
        ),
        _words("Executive, Finance, Operations, Technology, Sales, Logistics, People, Legal"),
        _words("Chief Executive, Director, Team Lead, Specialist, Analyst"),
        1,
    ),
}
