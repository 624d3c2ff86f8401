import * as z from "zod";
import { address } from "../../contract/address.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import { assertDeclared } from "../../contract/declared.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, messageOf } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import { beginning } from "../../contract/text.ts";
import { newTrace } from "../../contract/trace.ts";
import { effectsAndFree } from "../../inspect/effects.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { acceptance } from "../../intake/accept/accept.ts";
import { outgoing } from "../../recorder/proof.ts";
import { relay } from "../../recorder/relay.ts";
import { startInstances } from "../../recorder/start.ts";
import { query } from "../../store/d1/retry.ts";
import { askForStart, insertAccepted } from "../../store/instances/accept.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { ENDED } from "../../store/instances/status.ts";
import { type Call, instanceAct } from "./act.ts";
import { messageOfInstance } from "./past.ts";
import { planRun } from "./retry.ts";

/** The original instance is recorded as the cause of the new instance. */
export const runAgain = instanceAct({
  verb: "run_again",
  path: "run-again",
  operationId: "runInstanceAgain",
  summary: "Run a copy of an ended instance",
  description:
    "Starts a new instance with the payload, the tags and the correlation of this one, also of a complete one. Its key is the original key with `/again/` and an id. Its effects happen again, under keys of their own. A repeat with the same `Idempotency-Key` starts nothing.",
  accepted: "The new instance is accepted",
  answer: {
    instance_id: z.string().meta({ description: "The id of the new instance." }),
    replayed: z.boolean().meta({ description: "True for a repeat of an accepted request, which has no effect." }),
  },
  key: { says: "Identifies the request. Default: each request starts a new instance.", isRequired: false },
  read: readOriginal,
  refused({ instance: { status } }, original) {
    if (ENDED.has(status)) return original.why ?? null;
    if (status === "dead") return "The instance never started: replay its dead letter (GET /v1/dead-letters lists them).";
    if (status === "skipped") return "The instance is skipped: send its command under another key.";
    return `The instance is ${status}: only an instance that has ended can run again.`;
  },
  async plan(call) {
    const { env, by, instance, key } = call;
    const named = key === undefined ? "<id of the action>" : idOf(instance, key);
    // The same effects as a retry lists, so also effects that were undone, or that failed without a record.
    const start = instance.undo === null ? instance.error?.step : undefined;
    const effects = await planRun(call, { recorded: await effectsAndFree(env, by, instance.id), start });
    const labels = new Map(effects.map(({ step, item }) => [labelOf(step, item), { step, item, verdict: "runs" as const }]));
    return {
      consequence: `A new instance of ${instance.workflow} starts with the stored payload, under the key "${keyOf(instance, named)}". Its effects happen again, under keys of their own.`,
      effects: [...labels.values()],
    };
  },
  async change({ env, by, instance, key, actionId }, original) {
    if (original.why !== undefined) return { change: null, to: "accepted" };
    const { workflow, draft, queue } = original;
    const id = idOf(instance, key ?? actionId);
    const envelope = await address(env.PAYLOADS, draft, {
      tenantId: by.tenantId,
      source: by.actor,
      correlationId: instance.correlation_id,
      causationId: `${instance.id}/run again`,
      traceparent: newTrace(),
      idempotencyKey: keyOf(instance, id),
      owner: id,
    });
    const copy = acceptance(workflow, envelope, queue, { payload: draft.payload });
    const ended = sql`EXISTS (SELECT 1 FROM millrace_instances o
      WHERE o.id = ${instance.id} AND o.tenant_id = ${by.tenantId} AND o.status IN ${ENDED})`;
    return {
      change: insertAccepted(`[${copy.row}]`, ended),
      also: { asked: copy.flow ? askForStart([copy.id]) : [] },
      detail: { instance: copy.id },
      to: "accepted",
      isRepeat: async () => (await query(env.DB, selectKnown([copy.id]))).length > 0,
      async done({ change }, isApplied) {
        const isHeld = change?.[0]?.held === 1;
        // After a crash, the keeper starts the new instance.
        await crashPoint("A03 accept committed, not enqueued");
        if (isApplied && queue !== null) await relay(env, [outgoing(env.MILLRACE_KEY, copy, isHeld)]);
        if (isApplied && queue === null && !isHeld && !copy.flow) await startInstances(env, [copy], "first");
        return { instance_id: copy.id, replayed: !isApplied };
      },
    };
  },
  bulk: {
    from: ENDED.values,
    runs: true,
    consequence: "Each instance runs once more as a new one, with the same payload: its effects happen again, under keys of their own.",
  },
});

/** The message of an instance, read with the present definitions; the reason for an instance that cannot run again. */
async function readOriginal({ env, catalog, instance }: Call<unknown>) {
  assertDeclared(catalog !== undefined, 'Pass the catalog to run an instance again: actOn(env, by, "run-again", id, given, { catalog }).');
  const workflow = catalog.workflows.find(({ name }) => name === instance.workflow);
  if (workflow === undefined) return { why: `This deployment has no workflow ${instance.workflow}: add it, and deploy.` };
  const { queue, ...message } = await messageOfInstance(env, instance.id);
  try {
    const envelope = JSON.parse(message.envelope) as Envelope;
    const draft = workflow.on.from(await unpackPayload(env.PAYLOADS, workflow.on, envelope));
    return { workflow, draft: { ...draft, tags: envelope.tags ?? [] }, queue };
  } catch (error) {
    if (codeOf(error) === "payload_missing") return { why: "The payload of the instance is no longer stored: send its command again." };
    if (codeOf(error) === "invalid_payload")
      return { why: `The workflow no longer accepts the payload of the instance: ${messageOf(error)} Send its command again.` };
    throw error;
  }
}

/** The id of the new instance. Each repeat of a request gets the same id. */
const idOf = ({ id }: Instance, request: string) => digest("run again", id, request);

function keyOf({ idempotency_key }: Instance, id: string): string {
  return `${beginning(idempotency_key.replace(/\/again\/[0-9a-f]{32}$/, ""), 450)}/again/${id}`;
}
