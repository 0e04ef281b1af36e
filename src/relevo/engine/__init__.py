"""What happens: decisions about rows, inside the caller's transaction."""
