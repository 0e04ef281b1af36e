"""Whether one tenant is served, never mentioned, or many: what the environment says."""

import os
from collections.abc import Mapping
from typing import Final, Literal

from relevo.cli.declare import option
from relevo.cli.errors import UnknownTenancy

VARIABLE: Final = "RELEVO_TENANTS"

tenant_option: Final = option(
    "--tenant",
    metavar="TENANT",
    help="Whose rows, by slug or id; needed where an installation has many tenants.",
)
"""Adds --tenant; `resolve_tenant` reads what it says."""


def read_tenancy(environment: Mapping[str, str] | None = None) -> Literal["single", "multi"]:
    """Read for an application what it is to be: ``Relevo(tenants=read_tenancy())``.

    Args:
        environment: The variables to ask; None means the process's own.

    Returns:
        What RELEVO_TENANTS says, and ``single`` where it says nothing.

    Raises:
        UnknownTenancy: It says something else.
    """
    given = (os.environ if environment is None else environment).get(VARIABLE) or "single"
    if given == "multi":
        return "multi"
    if given != "single":
        raise UnknownTenancy(value=given)
    return "single"
