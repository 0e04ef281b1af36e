-- name: begin_preflight
-- Everything after this is taken back.
SAVEPOINT relevo_preflight;

-- name: undo_preflight
-- Takes the rehearsed activation back, with its locks.
ROLLBACK TO SAVEPOINT relevo_preflight;

-- name: end_preflight
-- Forgets the savepoint, so that a caller may rehearse again.
RELEASE SAVEPOINT relevo_preflight;
