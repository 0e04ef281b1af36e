-- A column, and a rule that is not looked at yet.
ALTER TABLE relevo.jobs
    ADD COLUMN next_note text,
    ADD CONSTRAINT jobs_next_note CHECK (length(next_note) <= 100) NOT VALID;
