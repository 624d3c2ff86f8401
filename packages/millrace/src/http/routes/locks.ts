import * as z from "zod";
import { chosenName } from "../../contract/chosen-name.ts";
import { breakLock, getLock, HeldLock, listLocks } from "../../locks/seen.ts";
import { reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { changes, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const params = z.object({ name: chosenName(200) });

const list = createRoute({
  ...at("get", "/v1/locks", "listLocks", "locks list"),
  summary: "List locks held for ten seconds or more, by name",
  description: "Returns the holder, the expiry and the number of waiting callers of each lock.",
  ...needs("read"),
  request: { query: z.strictObject(nameQuery(50, 100)) },
  responses: reads("A page of locks", pageOf(HeldLock)),
});

const show = createRoute({
  ...at("get", "/v1/locks/{name}", "getLock", "locks show"),
  summary: "Get a held lock",
  description: "Returns the holder of a lock that is held now, also for less than ten seconds.",
  ...needs("read"),
  request: { params },
  responses: reads("The lock", HeldLock, "lock_not_found"),
});

const breakRoute = createRoute({
  ...at("post", "/v1/locks/{name}/break", "breakLock", "locks break"),
  summary: "Break a lock",
  description:
    "The next waiting caller gets the lock. The old holder learns this when it renews the lock. Its fenced writes are refused after the next holder has written.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: changes("The lock was broken, or was already free", z.object({ action_id: z.string(), broken: z.boolean() })),
});

export function locks() {
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit } = req.valid("query");
      return json(pageBehind(await listLocks(env, caller, { after: cursor, limit })), 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => json(await getLock(env, caller, req.valid("param").name), 200))
    .openapi(breakRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(await breakLock(env, caller, req.valid("param").name, reason), 200);
    });
}
