import * as z from "zod";
import { chosenName } from "../../contract/chosen-name.ts";
import { breakLock, getLock, type HeldLock, listLocks } from "../../locks/seen.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

const LockSchema = z
  .object({
    name: z.string(),
    holder: z.string().meta({ description: "Who holds it, in its own words; may be empty." }),
    token: z.int().meta({ description: "The fencing token." }),
    since: timestamp,
    age_seconds: z.int(),
    until: timestamp.meta({ description: "When the lock is free if its holder does not renew it." }),
    waiting: z.int().meta({ description: "How many wait for it." }),
  })
  .meta({ id: "Lock" });

const params = z.object({ name: chosenName(200) });

const list = createRoute({
  method: "get",
  path: "/v1/locks",
  operationId: "listLocks",
  summary: "List the locks that have been held for ten seconds and more, by name",
  ...needs("read"),
  request: { query: z.strictObject(nameQuery(50, 100)) },
  responses: { 200: answers("A page of locks", pageOf(LockSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const show = createRoute({
  method: "get",
  path: "/v1/locks/{name}",
  operationId: "getLock",
  summary: "Show a lock that is held, however short",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The lock", LockSchema), ...problems("unauthorized", "forbidden", "invalid_payload", "lock_not_found") },
});

const breakRoute = createRoute({
  method: "post",
  path: "/v1/locks/{name}/break",
  operationId: "breakLock",
  summary: "Take a lock from its holder",
  description:
    "Who waits is next. The holder hears of it when it renews the lock; what it writes with its fence is refused once the next holder has written.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: {
    200: answers("Done, or nobody held it", z.object({ action_id: z.string(), broken: z.boolean() })),
    ...problems(...BODY_REFUSALS),
  },
});

export function locks() {
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit } = req.valid("query");
      return json(pageBehind(await listLocks(env, caller, { after: cursor, limit }), lockView), 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => json(lockView(await getLock(env, caller, req.valid("param").name)), 200))
    .openapi(breakRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const { actionId, broken } = await breakLock(env, caller, req.valid("param").name, reason);
      return json({ action_id: actionId, broken }, 200);
    });
}

function lockView({ name, who, token, since, until, waiting }: HeldLock): z.infer<typeof LockSchema> {
  const age_seconds = Math.max(0, Math.floor((Date.now() - since) / 1000));
  return { name, holder: who, token, since: iso(since), age_seconds, until: iso(until), waiting };
}
