import { fragment } from "../../contract/sql.ts";

/** It is paused for its restart alone: that is promised, and the platform has still to end the run before. */
export const IS_BEING_RESTARTED = fragment(`(instances.status = 'paused' AND EXISTS (SELECT 1 FROM actions
      WHERE actions.instance_id = instances.id AND actions.applied_at IS NULL AND actions.verb = 'restart'
        AND actions.detail->>'run' = instances.run))`);
