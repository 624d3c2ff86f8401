import * as z from "zod";
import { chosenName } from "../../contract/chosen-name.ts";
import { LimitRow, listLimits } from "../../limits/seen.ts";
import { breakLock, getLock, HeldLock, listLocks } from "../../locks/seen.ts";
import { operation, reasoned } from "../operation.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";

const params = { name: chosenName(200) };

export const limits = [
  operation("get", "/v1/limits", "listLimits", "limits list", {
    summary: "List the rate limits your tenant used in the last day, by name",
    description: "A limit shared by tenants is shown to each of them with the usage of all. The request limits of tokens are not included.",
    query: nameQuery(50, 100),
    answer: ["A page of limits", pageOf(LimitRow)],
    run: async ({ env, by, query: { cursor: after = "", limit } }) => pageBehind(await listLimits(env, by, { after, limit })),
  }),
  operation("get", "/v1/locks", "listLocks", "locks list", {
    summary: "List locks held for ten seconds or more, by name",
    description: "Returns the holder, the expiry and the number of waiting callers of each lock.",
    query: nameQuery(50, 100),
    answer: ["A page of locks", pageOf(HeldLock)],
    run: async ({ env, by, query: { cursor: after = "", limit } }) => pageBehind(await listLocks(env, by, { after, limit })),
  }),
  operation("get", "/v1/locks/{name}", "getLock", "locks show", {
    summary: "Get a held lock",
    description: "Returns the holder of a lock that is held now, also for less than ten seconds.",
    params,
    answer: ["The lock", HeldLock],
    problems: ["lock_not_found"],
    run: ({ env, by, param }) => getLock(env, by, param.name),
  }),
  operation("post", "/v1/locks/{name}/break", "breakLock", "locks break", {
    summary: "Break a lock",
    "x-final": "The holder cannot get the lock back.",
    description:
      "The next waiting caller gets the lock. The old holder learns this when it renews the lock. Its fenced writes are refused after the next holder has written.",
    params,
    body: reasoned,
    answer: ["The lock was broken, or was already free", z.object({ action_id: z.string(), broken: z.boolean() })],
    run: ({ env, by, param, body }) => breakLock(env, by, param.name, body.reason),
  }),
];
