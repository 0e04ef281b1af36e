"""A line of migrations that only the upgrade campaign has: what a next release might bring."""
