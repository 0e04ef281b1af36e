-- transaction: none
-- Reads the table once and keeps nobody from writing to it.

ALTER TABLE relevo.jobs VALIDATE CONSTRAINT jobs_sound;
