import { fragment, now } from "../../contract/sql.ts";
import { IS_INDEXED_AS_UNDER_WAY } from "./status.ts";

/**
 * The condition that an instance is under way and has a deadline, in the very words of the index `instances_by_deadline`, because a partial
 * index serves no others. What takes an instance back is late for nobody.
 */
export const HAS_DEADLINE = fragment(`must_end_by IS NOT NULL AND undo IS NULL AND ${IS_INDEXED_AS_UNDER_WAY.fragment}`);

/** The condition that an instance should have ended and has not. */
export const IS_OVERDUE = fragment(`(must_end_by <= ${now.fragment} AND ${HAS_DEADLINE.fragment})`);
