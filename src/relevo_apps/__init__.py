"""Work that businesses do, on the engine's public names only."""
