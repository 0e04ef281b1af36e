"""What we say to the database: per table one .sql file and one typed module beside it."""
