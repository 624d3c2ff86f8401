import * as z from "zod";
import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { isTenant } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import { defineEvent } from "../contract/message.ts";
import { defineQueue, queueFor } from "../contract/queue.ts";
import { sayUnmeant } from "../contract/settings.ts";
import { newTrace } from "../contract/trace.ts";
import { type Alert, SEVERITIES } from "../store/alerts.ts";
import type { Outgoing } from "../store/outbox.ts";
import { type AlertVars, CHANNELS, type ChannelName } from "./channels.ts";
import { ALERT_CHANGES, type AlertChange } from "./evaluate.ts";
import type { AlertRule } from "./rule.ts";

/**
 * The default tenant of alerts' messages and of the instances that send these messages. The variable `ALERTS_TENANT` sets a different
 * tenant.
 */
const ALERTS_TENANT = "millrace";

/** An invalid tenant name must not prevent notices of alerts. Therefore an invalid name is only logged, and the default tenant applies. */
export function alertsTenant(env: AlertVars): string {
  const said = env.ALERTS_TENANT || ALERTS_TENANT;
  if (isTenant(said)) return said;
  sayUnmeant(env, `ALERTS_TENANT is not a tenant: use up to 64 lower case letters, digits, - or _. Until then it is "${ALERTS_TENANT}".`);
  return ALERTS_TENANT;
}

/** The queue of alerts, and the workflow that sends the alerts. */
const ALERTS_QUEUE = defineQueue({ name: "alerts" });
export const SEND_ALERT = "send-alert";

const at = z.iso.datetime();

/**
 * An alert has begun, changed, continued or ended. The event contains names from code, counts, and the note of an operator who escalated a
 * dead letter, but no payload, subject or tenant.
 */
export const AlertChanged = defineEvent({
  type: "alert.changed",
  payload: z.object({
    alert_id: z.string(),
    change: z.enum(ALERT_CHANGES),
    rule: z.string(),
    severity: z.enum(SEVERITIES),
    labels: z.record(z.string(), z.string()),
    value: z.number(),
    /** The rule's bound for the alert's severity; null if the rule no longer has this bound. */
    above: z.number().nullable(),
    /** The number of counted events; null for a rule about a current value. */
    count: z.int().nullable(),
    /** At most three ids of affected instances or dead letters. */
    examples: z.array(z.string()),
    since: at,
    last_at: at,
    changed_at: at,
    meaning: z.string(),
    doc: z.string(),
    /** The note of an operator who escalated a dead letter; null without such a note. */
    note: z.object({ by: z.string(), text: z.string() }).nullable().optional(),
    /** The channels that the notice is sent to. */
    channels: z.array(z.enum(CHANNELS)),
  }),
  subject: ({ alert_id }) => alert_id,
  queue: ALERTS_QUEUE,
});

export type AlertNotice = z.infer<typeof AlertChanged.payload>;

/**
 * True for alerts about the queue and the workflows that send alerts. Such alerts are listed and logged but not sent, because sending each
 * alert could cause the next alert.
 */
export function isOwn({ queue, workflow }: Alert["labels"], senders: ReadonlySet<string>): boolean {
  return (workflow !== undefined && senders.has(workflow)) || queue === ALERTS_QUEUE.name || queue === `${ALERTS_QUEUE.name}-dlq`;
}

type Note = NonNullable<AlertNotice["note"]>;

/** Builds the notice of an alert. */
export function noticeOf(
  alert: Alert,
  change: AlertChange,
  rule: AlertRule | undefined,
  channels: readonly ChannelName[],
  note: Note | null = null,
): AlertNotice {
  const { id, labels, severity, value, count, examples, since, lastAt, updatedAt } = alert;
  return {
    alert_id: id,
    change,
    rule: alert.rule,
    severity,
    labels: { ...labels },
    value,
    above: rule?.[severity]?.above ?? null,
    count,
    examples: [...examples],
    since: new Date(since).toISOString(),
    last_at: new Date(lastAt).toISOString(),
    changed_at: new Date(updatedAt).toISOString(),
    meaning: rule?.meaning ?? "The rule was removed.",
    doc: rule?.doc ?? "docs/alerts.md",
    note,
    channels: [...channels],
  };
}

/**
 * Builds the message that contains a notice. The same version of an alert gives the same message id, so repeated sends start one instance.
 */
export async function messageOfNotice(env: EngineEnv, tenantId: string, alert: Alert, notice: AlertNotice): Promise<Outgoing> {
  const name = `${alert.id}-${alert.version}`;
  const envelope = await address(env.PAYLOADS, AlertChanged.from(notice), {
    tenantId,
    source: "keeper",
    correlationId: alert.id,
    causationId: `alert/${alert.id}`,
    traceparent: newTrace(),
    idempotencyKey: name,
    owner: `alert-${name}`,
  });
  return { id: messageId(envelope), queue: queueFor(ALERTS_QUEUE, envelope), delaySeconds: 0, body: JSON.stringify(envelope) };
}
