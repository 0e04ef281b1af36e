"""The engine's own line of migrations, one numbered .sql file each, never edited once released."""
