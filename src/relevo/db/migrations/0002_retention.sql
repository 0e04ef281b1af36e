-- When a finished row may go. NULL keeps it: a job that is live, or whose kind is kept
-- until its owner is purged, so that a unique index of an application keeps guarding.

ALTER TABLE relevo.jobs ADD COLUMN prune_at timestamptz;
