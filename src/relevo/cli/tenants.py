"""`relevo tenants`: who shares an installation."""

import click

from relevo.api import perform
from relevo.cli.declare import group, option
from relevo.cli.language import gettext as _
from relevo.cli.shell import Shell, options, pass_shell
from relevo.db.dsn import WEB_ROLE
from relevo.db.identity import read_mode
from relevo.engine import tenants as engine


@group("tenants")
@options()
def tenants() -> None:
    """Add and list the tenants of an installation."""


@tenants.command("add")
@click.argument("slug")
@option("--name", metavar="NAME", help="What people read; else the slug.")
@options()
@pass_shell
def add(shell: Shell, /, *, slug: str, name: str | None) -> None:
    """Add a tenant; needs the owner of the schema."""
    with shell.database() as database, database.connect() as connection:
        tenant_id = perform(connection, engine.add_tenant(slug, name))
    if shell.out.as_json:
        shell.out.json({"id": tenant_id, "slug": slug})
        return
    shell.out.line(
        _("added the tenant %(slug)s: %(id)s") % {"slug": slug, "id": tenant_id},
    )


@tenants.command("list")
@options()
@pass_shell
def list_all(shell: Shell) -> None:
    """List the tenants, by slug."""
    with shell.database() as database, database.connect(WEB_ROLE) as connection:
        mode = perform(connection, read_mode())
        found = perform(connection, engine.list_tenants())
    if shell.out.as_json:
        listed = [
            {"id": each.id, "slug": each.slug, "name": each.name, "created_at": each.created_at}
            for each in found
        ]
        shell.out.json({"mode": mode, "tenants": listed})
        return
    rows = [(each.slug, each.name, each.id, each.created_at) for each in found]
    shell.out.table([_("tenant"), _("name"), _("id"), _("created at")], rows)
