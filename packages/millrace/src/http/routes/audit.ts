import * as z from "zod";
import { AuditFilter, AuditRow, listActions } from "../../inspect/actions.ts";
import { INSTANCE_ACTS } from "../../operate/instances/acts.ts";
import { VERBS } from "../../store/actions.ts";
import { needs } from "../auth.ts";
import { operation } from "../operation.ts";
import { page, pageOf, pageQuery } from "../paging.ts";

/** The route of the audit. `own` has the verbs of the app. */
export function audit(own: readonly string[]) {
  const verb = z.enum([...new Set([...VERBS, ...Object.values(INSTANCE_ACTS).map(({ verb }) => verb), ...own])]);
  return operation("get", "/v1/audit", "listAudit", "audit list", {
    summary: "List the actions of operators, newest first",
    description: "Returns each action with its actor, reason, target and result. Rows are kept for 400 days.",
    ...needs("read"),
    query: { ...AuditFilter.shape, verb: verb.optional(), ...pageQuery },
    answer: ["A page of actions", pageOf(AuditRow.extend({ verb }).meta({ id: "AuditRow" }))],
    run: async ({ env, by, query }) => page(await listActions(env, by, query)),
  });
}
