import { fragment, now } from "../../contract/sql.ts";
import { IS_INDEXED_AS_UNDER_WAY } from "./status.ts";

/**
 * The condition that an instance in progress has a deadline. The text must equal the condition of the partial index
 * `instances_by_deadline`, so that the database uses the index. An instance that is being undone has no deadline.
 */
export const HAS_DEADLINE = fragment(`must_end_by IS NOT NULL AND undo IS NULL AND ${IS_INDEXED_AS_UNDER_WAY.fragment}`);

/** The condition that an instance in progress has passed its deadline. */
export const IS_OVERDUE = fragment(`(must_end_by <= ${now.fragment} AND ${HAS_DEADLINE.fragment})`);
