import { among, type Statement, sql } from "./sql.ts";

/**
 * What other Workers with this database run: their workflows and queues, as the catalog declares them. Filled while the Worker's modules
 * are loaded, as each isolate of a Worker has one catalog. The keeper, operator actions and alerts leave these to their own Worker.
 */
export const elsewhere = { workflows: new Set<string>(), queues: new Set<string>(), commands: new Set<string>() };

/** The names as a list for `NOT IN`. */
export const namesElsewhere = (what: keyof typeof elsewhere): Statement => sql`${among([...elsewhere[what]])}`;
