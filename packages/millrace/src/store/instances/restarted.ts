import { fragment } from "../../contract/sql.ts";

/**
 * The condition that an instance is paused only because of its restart. The restart's action is open, and the platform has not ended the
 * previous run.
 */
export const IS_BEING_RESTARTED = fragment(`(millrace_instances.status = 'paused' AND EXISTS (SELECT 1 FROM millrace_actions
      WHERE millrace_actions.instance_id = millrace_instances.id AND millrace_actions.applied_at IS NULL
        AND millrace_actions.verb = 'restart'
        AND millrace_actions.detail->>'run' = millrace_instances.run))`);
