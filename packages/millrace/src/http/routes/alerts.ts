import * as z from "zod";
import { type AlertDelivery, deliveriesOf } from "../../inspect/alert-delivery.ts";
import { listAlerts } from "../../inspect/alerts.ts";
import { MAX_MUTE_MS, mute } from "../../operate/mute-alert.ts";
import { ALERT_STATES, type Alert, SEVERITIES } from "../../store/alerts.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import { DeliverySchema, deliveryView } from "../delivery.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const AlertSchema = z
  .object({
    id: z.string(),
    rule: z.string(),
    state: z.enum(ALERT_STATES).meta({ description: "`pending`: observed, but not yet for the duration of its rule." }),
    severity: z.enum(SEVERITIES),
    labels: z.record(z.string(), z.string()).meta({ description: "The labels of the group, such as a queue." }),
    value: z.number().meta({ description: "The last observed value, updated once a minute." }),
    count: z.int().nullable().meta({ description: "The number of occurrences; null for a rule about a level." }),
    examples: z.array(z.string()).meta({ description: "Up to three ids of instances or dead letters." }),
    since: timestamp,
    last_at: timestamp.meta({ description: "When it was last observed." }),
    fired_at: timestamp.nullable(),
    notice_at: timestamp.nullable().meta({ description: "When its last notification was created, even if no channel is set." }),
    told_at: timestamp.nullable().meta({ description: "When all channels had accepted that notification; null until then." }),
    delivery: DeliverySchema.nullable().meta({
      description: "The delivery of that notification; null if no channel is set, and before the delivery starts.",
    }),
    resolved_at: timestamp.nullable(),
    muted: z.object({ until: timestamp, reason: z.string() }).nullable(),
  })
  .meta({ id: "Alert" });

const MutedSchema = z.object({ action_id: z.string(), changed: z.boolean() }).meta({ id: "AlertMuted" });

const params = z.object({ id: z.string().min(1).max(64) });
const muting = reasoned.extend({
  until: timestamp.refine(
    (until) => Date.parse(until) > Date.now() && Date.parse(until) <= Date.now() + MAX_MUTE_MS,
    "must be within the next 30 days",
  ),
});

const list = createRoute({
  method: "get",
  path: "/v1/alerts",
  operationId: "listAlerts",
  command: "alerts list",
  summary: "List alerts, newest first",
  description: "Lists the open alerts of the deployment, and those resolved in the last 30 days.",
  ...needs("observe"),
  request: { query: z.strictObject({ state: z.enum(ALERT_STATES).optional(), rule: z.string().min(1).max(64).optional(), ...pageQuery }) },
  responses: { 200: answers("A page of alerts", pageOf(AlertSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const muteRoute = createRoute({
  method: "post",
  path: "/v1/alerts/{id}/mute",
  operationId: "muteAlert",
  command: "alerts mute",
  summary: "Mute an alert until a time",
  description: "Sends no notification for this alert and for later alerts with the same rule and labels. They remain listed.",
  ...needs("observe", "operate"),
  request: { params, body: jsonBody(muting) },
  responses: { 200: answers("It is muted", MutedSchema), ...problems(...BODY_REFUSALS, "alert_not_found") },
});

const unmuteRoute = createRoute({
  method: "post",
  path: "/v1/alerts/{id}/unmute",
  operationId: "unmuteAlert",
  command: "alerts unmute",
  summary: "Unmute an alert",
  description: "Sends a missed notification within seconds.",
  ...needs("observe", "operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: { 200: answers("The alert is not muted", MutedSchema), ...problems(...BODY_REFUSALS, "alert_not_found") },
});

export function alerts() {
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, json }) => {
      const alerts = await listAlerts(env, req.valid("query"));
      const deliveries = await deliveriesOf(env, alerts.items);
      return json(
        page(alerts, (alert) => view(alert, deliveries.get(alert.id))),
        200,
      );
    })
    .openapi(muteRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason, until } = await readBody(req, muting);
      const { actionId, isApplied } = await mute(env, caller, req.valid("param").id, Date.parse(until), reason);
      return json({ action_id: actionId, changed: isApplied }, 200);
    })
    .openapi(unmuteRoute, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const { actionId, isApplied } = await mute(env, caller, req.valid("param").id, null, reason);
      return json({ action_id: actionId, changed: isApplied }, 200);
    });
}

function view(alert: Alert, delivery: AlertDelivery | undefined): z.infer<typeof AlertSchema> {
  const { id, rule, state, severity, labels, value, count, examples, mutedUntil, muteReason } = alert;
  const isMuted = mutedUntil !== null && mutedUntil > Date.now();
  return {
    ...{ id, rule, state, severity, labels: { ...labels }, value, count, examples: [...examples] },
    since: iso(alert.since),
    last_at: iso(alert.lastAt),
    fired_at: isoOrNull(alert.firedAt),
    notice_at: isoOrNull(alert.told?.at ?? null),
    told_at: isoOrNull(delivery?.toldAt ?? null),
    delivery: delivery ? deliveryView(delivery) : null,
    resolved_at: isoOrNull(alert.resolvedAt),
    muted: isMuted ? { until: iso(mutedUntil), reason: muteReason ?? "" } : null,
  };
}
