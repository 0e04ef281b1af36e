"""The names of the columns in English, Spanish and Portuguese, as `spell` reduces them.

The first name of each column is the one that a report suggests.
"""

from collections.abc import Mapping

Columns = Mapping[str, tuple[str, ...]]


def _parse(text: str) -> Columns:
    """Read one column for each line that is not indented."""
    columns: dict[str, tuple[str, ...]] = {}
    for entry in text.strip().replace("\n    ", " ").splitlines():
        column, _, names = entry.partition(": ")
        columns[column] = tuple(name.strip() for name in names.split("|"))
    return columns


PEOPLE_COLUMNS = _parse("""
external_id: employee id | id | external id | employee number | employee no | person id |
    personnel number | badge id | badge | user id | staff id | id empleado | id de empleado
    | id del empleado | empleado id | numero de empleado | nro de empleado | codigo | codigo
    de empleado | legajo | identificador | id externo | id persona | id de persona | id
    funcionario | id do funcionario | funcionario id | matricula | id colaborador | id do
    colaborador | codigo do funcionario | numero do funcionario | id da pessoa
first_name: first name | given name | forename | preferred name | nombres | primer nombre |
    nombre de pila | primeiro nome | prenome
last_name: last name | surname | family name | apellido | apellidos | sobrenome | ultimo
    nome | apelido | apelidos
full_name: full name | employee name | display name | complete name | nombre completo |
    nombre y apellido | nombre y apellidos | apellido y nombre | apellidos y nombre |
    apellidos y nombres | nome completo | nome e sobrenome | nome do funcionario | nome do
    colaborador
name: name | nombre | nome
email: email | e mail | mail | email address | e mail address | work email | company email |
    corporate email | correo | correo electronico | correo e | direccion de correo | email
    corporativo | correo corporativo | direccion de correo electronico | endereco de email |
    endereco de e mail | correio eletronico | e mail corporativo | e mail profissional
manager: manager id | manager | manager employee id | reports to | reporting manager |
    supervisor | supervisor id | line manager | boss | reporting manager id | jefe | id jefe
    | id del jefe | jefe id | jefa | jefatura | jefe directo | responsable | id responsable
    | reporta a | superior | id del responsable | gestor | id gestor | id do gestor | gestor
    id | gestora | gerente | id gerente | chefe | id do chefe | lider | superior imediato |
    gestor direto | responde a | reporta para
manager_email: manager email | manager e mail | manager mail | supervisor email | reporting
    manager email | email of manager | line manager email | email jefe | email del jefe |
    correo del jefe | correo jefe | e mail del jefe | correo del responsable | email del
    responsable | correo electronico del jefe | email do gestor | e mail do gestor | email
    gestor | e mail gestor | email do chefe | e mail do chefe | email do gerente | e mail do
    gerente
language: language | locale | lang | preferred language | idioma | lengua | idioma preferido
    | lingua | idioma preferencial
department: department | dept | team | business unit | division | departamento | area |
    depto | equipo | sector | setor | equipe | divisao
job_title: job title | title | position | job | role | job position | puesto | cargo |
    puesto de trabajo | posicion | titulo del puesto | funcao | posicao
hire_date: hire date | start date | date joining | date of hire | joining date | hired on |
    fecha de ingreso | fecha ingreso | fecha de contratacion | fecha de alta | fecha de
    inicio | fecha de incorporacion | data de admissao | data admissao | data de contratacao
    | data de inicio | data de entrada
active: status | active | employment status | is active | estado | activo | situacion |
    situacao | ativo
""")

PEER_COLUMNS = _parse("""
participant: participant | participant id | participant email | reviewee | revieweeemail |
    reviewee email | reviewee id | employee | employee id | evaluated | participante | id
    participante | email participante | evaluado | evaluada | id evaluado | email del
    evaluado | correo del evaluado | avaliado | avaliada | id avaliado | email do avaliado |
    e mail do avaliado
peer: peer | peer id | peer email | reviewer | revieweremail | reviewer email | reviewer id
    | evaluator | evaluator id | evaluator email | par | id par | email del par | evaluador
    | evaluadora | id evaluador | email del evaluador | correo del evaluador | companero |
    avaliador | avaliadora | id avaliador | email do avaliador | e mail do avaliador |
    colega
""")
