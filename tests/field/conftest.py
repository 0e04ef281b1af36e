"""What commits nothing shares one database."""

from rolled_back import connection, shared_database

__all__ = ["connection", "shared_database"]
