import type { ToSchema, TypedResponse } from "hono";
import type { JSONParsed } from "hono/utils/types";
import * as z from "zod";
import { AuditFilter, AuditRow, listActions } from "../../inspect/actions.ts";
import type { Fields, InstanceAct } from "../../operate/instances/act.ts";
import { INSTANCE_ACTS } from "../../operate/instances/acts.ts";
import { ActionPlan } from "../../operate/instances/plan.ts";
import { VERBS } from "../../store/actions.ts";
import { type Asked, operation, type PathOf, reasoned } from "../operation.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { invalidRequest } from "../problem.ts";
import type { Operation } from "../router.ts";

/** The id of an accepted action. If the platform is unavailable now, the keeper executes the action later. */
const action_id = z.string();
const dry_run = z.boolean().default(false).describe("True returns the consequences, as far as they are recorded, and changes nothing.");

type OperationOf<Act> = Act extends InstanceAct<infer Path, infer _, infer Answer> ? ActOperation<Path, Answer> : never;
/** The compiler cannot infer this type in a loop. */
type ActOperation<Path extends string, Answer extends Fields> = Operation<
  ToSchema<
    "post",
    PathOf<`/v1/instances/{id}/${Path}`>,
    { in: { param: { id: string } } },
    Json<typeof ActionPlan, 200> | Json<z.ZodObject<{ action_id: z.ZodString } & Answer>, 202>
  >
>;
type Json<Of extends z.ZodType, Status extends 200 | 202> = TypedResponse<JSONParsed<z.output<Of>>, Status, "json">;

type AskedAct = Pick<Asked, "env" | "catalog" | "by" | "key"> & { param: { id: string }; body: { reason: string; dry_run: boolean } };

function callOf({ env, catalog, by, key, param: { id, ...params }, body: { dry_run: _, ...body } }: AskedAct) {
  return [{ env, catalog, by, key, given: { ...params, ...body } }, id] as const;
}

export const instanceActs = Object.entries<InstanceAct>(INSTANCE_ACTS).map(([name, act]) => {
  const { path, key } = act;
  const own = Object.entries(act.body ?? {}).filter(([field]) => !path.includes(`{${field}}`));
  return operation("post", `/v1/instances/{id}/${path}`, act.operationId ?? `${name}Instance`, `instances ${name}`, {
    summary: act.summary,
    description: act.description,
    ...(act.final && { "x-final": act.final }),
    ...(key && { key: key.says }),
    body: reasoned.extend({ ...Object.fromEntries(own), dry_run }),
    limits: { maxBytes: act.maxBytes },
    plan: {
      answer: [`A dry run: the consequences of the ${name.replaceAll("-", " ")}`, ActionPlan],
      run: (asked) => act.plan(...callOf(asked)),
    },
    answer: [act.accepted, z.object({ action_id, ...act.answer })],
    status: 202,
    problems: ["instance_not_found", "invalid_transition", ...(act.problems ?? [])],
    async run(asked) {
      if (key?.isRequired && asked.key === undefined) {
        const message = `is missing: send a key for the ${name}, so that a repeat is recognized`;
        throw invalidRequest([{ path: "Idempotency-Key", message }]);
      }
      return act.act(...callOf(asked));
    },
  });
}) as unknown as OperationOf<(typeof INSTANCE_ACTS)[keyof typeof INSTANCE_ACTS]>[];

/** `own` has the verbs of the app. */
export function audit(own: readonly string[]) {
  const verb = z.enum([...new Set([...VERBS, ...Object.values(INSTANCE_ACTS).map(({ verb }) => verb), ...own])]);
  return operation("get", "/v1/audit", "listAudit", "audit list", {
    summary: "List the actions of operators, newest first",
    description: "Returns each action with its actor, reason, target and result. Rows are kept for 400 days.",
    query: { ...AuditFilter.shape, verb: verb.optional(), ...pageQuery },
    answer: ["A page of actions", pageOf(AuditRow.extend({ verb }).meta({ id: "AuditRow" }))],
    run: async ({ env, by, query }) => page(await listActions(env, by, query)),
  });
}
