import { among, type Statement, sql } from "./sql.ts";

/**
 * The workflows, queues and commands of other Workers with the same database, from `elsewhere` of the catalog. Filled while modules are
 * loaded: each isolate has one catalog. The keeper, operator actions and alerts ignore workflows, queues and commands of other Workers.
 */
export const elsewhere = { workflows: new Set<string>(), queues: new Set<string>(), commands: new Set<string>() };

/** The names as a list for `NOT IN`. */
export const namesElsewhere = (what: keyof typeof elsewhere): Statement => sql`${among([...elsewhere[what]])}`;
