import * as z from "zod";
import { AlertFilter, AlertRow, listAlerts } from "../../inspect/alerts.ts";
import { MAX_MUTE_MS, mute } from "../../operate/mute-alert.ts";
import { reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { changes, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { timestamp } from "../time.ts";

const MutedSchema = z.object({ action_id: z.string(), changed: z.boolean() }).meta({ id: "AlertMuted" });

const params = z.object({ id: z.string().min(1).max(64) });
const muting = reasoned.extend({
  until: timestamp.refine(
    (until) => Date.parse(until) > Date.now() && Date.parse(until) <= Date.now() + MAX_MUTE_MS,
    "must be within the next 30 days",
  ),
});

const list = createRoute({
  ...at("get", "/v1/alerts", "listAlerts", "alerts list"),
  summary: "List alerts, newest first",
  description: "Lists the open alerts of the deployment, and those resolved in the last 30 days.",
  ...needs("observe"),
  request: { query: AlertFilter.extend(pageQuery).strict() },
  responses: reads("A page of alerts", pageOf(AlertRow)),
});

const muteRoute = createRoute({
  ...at("post", "/v1/alerts/{id}/mute", "muteAlert", "alerts mute"),
  summary: "Mute an alert until a time",
  description: "Sends no notification for this alert and for later alerts with the same rule and labels. They remain listed.",
  ...needs("observe", "operate"),
  request: { params, body: jsonBody(muting) },
  responses: changes("It is muted", MutedSchema, "alert_not_found"),
});

const unmuteRoute = createRoute({
  ...at("post", "/v1/alerts/{id}/unmute", "unmuteAlert", "alerts unmute"),
  summary: "Unmute an alert",
  description: "Sends a missed notification within seconds.",
  ...needs("observe", "operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: changes("The alert is not muted", MutedSchema, "alert_not_found"),
});

export function alerts() {
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, json }) => json(page(await listAlerts(env, req.valid("query"))), 200))
    .openapi(muteRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason, until } = await readBody(req, muting);
      return json(await mute(env, caller, req.valid("param").id, Date.parse(until), reason), 200);
    })
    .openapi(unmuteRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(await mute(env, caller, req.valid("param").id, null, reason), 200);
    });
}
