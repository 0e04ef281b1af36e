-- name: forbid_nested_loops
-- From here on the transaction joins whole sets; answers the settings to return to.
SELECT current_setting('enable_nestloop'),
       current_setting('jit'),
       set_config('enable_nestloop', 'off', true),
       set_config('jit', 'off', true);

-- name: restore_planning
-- Gives the caller's transaction its own settings back.
SELECT set_config('enable_nestloop', %(enable_nestloop)s::text, true),
       set_config('jit', %(jit)s::text, true);
