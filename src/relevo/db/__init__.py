"""How we speak: statements, operations, drivers, connections, migrations, the embedded server."""
