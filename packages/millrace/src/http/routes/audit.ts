import * as z from "zod";
import { AuditFilter, AuditRow, listActions } from "../../inspect/actions.ts";
import { INSTANCE_ACTS } from "../../operate/instances/acts.ts";
import { VERBS } from "../../store/actions.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

/** Builds the route of the audit. `own` has the verbs of the app. */
export function audit(own: readonly string[]) {
  const verb = z.enum([...new Set([...VERBS, ...Object.values(INSTANCE_ACTS).map(({ verb }) => verb), ...own])]);
  const list = createRoute({
    ...at("get", "/v1/audit", "listAudit", "audit list"),
    summary: "List the actions of operators, newest first",
    description: "Returns each action with its actor, reason, target and result. Rows are kept for 400 days.",
    ...needs("read"),
    request: { query: AuditFilter.extend({ verb: verb.optional(), ...pageQuery }).strict() },
    responses: {
      200: answers("A page of actions", pageOf(AuditRow.extend({ verb }).meta({ id: "AuditRow" }))),
      ...problems("unauthorized", "forbidden", "invalid_payload"),
    },
  });
  return new Routes<HttpEnv>().openapi(list, async ({ env, req, var: { caller }, json }) =>
    json(page(await listActions(env, caller, req.valid("query"))), 200),
  );
}
