-- transaction: none
-- An index of the whole table, and the rule's look at it.

CREATE INDEX CONCURRENTLY jobs_next ON relevo.jobs
    (kind, created_at);

ALTER TABLE relevo.jobs VALIDATE CONSTRAINT jobs_next_note;
