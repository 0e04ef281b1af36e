-- Reads the jobs written before the constraint came, without stopping who writes new ones.

ALTER TABLE relevo.jobs VALIDATE CONSTRAINT jobs_cycle_dispatched;
