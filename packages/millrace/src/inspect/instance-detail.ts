import * as z from "zod";
import { nameOfEnd } from "../callbacks/send-callback.ts";
import { type EngineEnv, SEND_CALLBACK } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { instanceId, platformId } from "../contract/ids.ts";
import { isoOrNull, listOf, redacted, timestamp } from "../contract/row.ts";
import { sql } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import { readResult } from "../guard/result.ts";
import { askPlatform, type PlatformAnswer } from "../intake/platform.ts";
import { Cost } from "../observe/cost/instance-cost.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { UNDER_WAY, UNSEEN } from "../store/instances/status.ts";
import type { Catalog } from "../topology/catalog.ts";
import { notStartable } from "../topology/described.ts";
import { activityIn } from "./activity.ts";
import { Delivery, type DeliveryRow, deliveryOf } from "./alerts.ts";
import { Answers } from "./answers.ts";
import { costOfInstance } from "./costs.ts";
import { AnsweredEffect, type Doubt, doubtsOf } from "./effects.ts";
import { historyOf } from "./history.ts";
import { INSTANCE_COLUMNS, Instance, instanceIn } from "./instance-row.ts";
import { unknownInstance } from "./instances.ts";

const CalledEnd = z.object({ run: z.int(), status: z.string() });
type CalledEnd = z.infer<typeof CalledEnd>;

/** An instance with its message, its result, its unknown outcomes and its cost. */
export const InstanceDetail = Instance.extend({
  archived_at: z
    .nullable(timestamp)
    .describe("When the instance moved from the database to R2: it can be read, and no longer changed. Null for other instances."),
  platform_status: z.string().describe("The status on the platform; `unknown` if the platform has no such instance."),
  schema_version: z.int().describe("The version of the message type that the payload has."),
  payload: z.unknown().describe("The payload as sent; null if it is stored by reference."),
  payload_ref: z.string().nullable().describe("The location of a large payload."),
  result: z.unknown().meta({
    description: "The return value of a complete run; null without one, and after the platform has removed it.",
    ...redacted,
  }),
  result_changed: z
    .nullable(z.string())
    .describe("For a result that is not plain data, such as a Map: the changes made by the conversion to JSON. Null otherwise."),
  unknown_outcomes: listOf({
    step: z.string().describe("The step name in the code, followed by the key of an item in brackets."),
    effect: z.string().describe("The effect's key."),
    since: timestamp,
    why: z.nullable(z.string()).meta({ description: "The error of the last attempt.", ...redacted }),
    confirm: z.string().describe("The path of the POST that confirms that the effect happened, with its `output`."),
    reject: z
      .nullable(z.string())
      .describe("The path of the POST if the effect did not happen. Null if the effect is known to have happened."),
    retry: z
      .nullable(z.string())
      .describe("The path to run the effect again if its outcome stays unknown; it may happen twice. Null if this is refused."),
    answered: AnsweredEffect.nullable(),
    consequences: Answers,
  }).describe("Effects with an unknown outcome. An `in_doubt` instance continues after an operator has decided them."),
  callback: z
    .object({
      url: z.string(),
      called: CalledEnd.nullable().describe("The end of the instance that the last call reports; null before the first call."),
      told: CalledEnd.nullable().describe("The end that the address has accepted; null until then."),
      delivery: Delivery.nullable().describe(
        "The delivery of that call; null before the first call, and after retention removed its instance.",
      ),
    })
    .nullable()
    .describe("The callback URL of the command, called at each end."),
  cost: Cost,
}).meta({ id: "InstanceDetail" });
export type InstanceDetail = z.infer<typeof InstanceDetail>;

/** `error` has the reason why an instance cannot start in this deployment. Errors: `instance_not_found`, also for another tenant's. */
export async function describeInstance(
  env: EngineEnv,
  by: Operator,
  id: string,
  catalog?: Pick<Catalog, "workflows" | "elsewhere">,
  archivedAt: number | null = null,
): Promise<InstanceDetail> {
  const [row] = await query(
    env.DB,
    sql`SELECT ${INSTANCE_COLUMNS}, envelope, callback FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
  );
  if (!row) throw unknownInstance(id);
  const instance = startable(env, instanceIn(row), catalog);
  const envelope = JSON.parse(String(row.envelope ?? "{}")) as Partial<Envelope>;
  const [{ status: platform_status, output }, cost, doubts, callback, activity] = await Promise.all([
    answerOf(env, instance),
    costOfInstance(env, id),
    instance.status === "complete" ? [] : doubtsOf(env, by, id),
    callbackOf(env, by, id, envelope.callback_url, row.callback),
    UNDER_WAY.has(instance.status) ? historyOf(env, instance).then(({ steps }) => activityIn(steps)) : undefined,
  ]);
  // Retention may have removed the instance's row between the two queries.
  if (!cost) throw unknownInstance(id);
  const returned = readResult(platform_status === "complete" && instance.undo === null ? output : null);
  const sleeping = activity?.sleeping ?? null;
  // A pause of an instance extends the instance's sleep, and the new end of the sleep is unknown.
  if (sleeping?.until && platform_status === "paused" && Date.parse(sleeping.until) <= Date.now()) sleeping.until = null;
  return {
    ...instance,
    ...activity,
    archived_at: isoOrNull(archivedAt),
    platform_status,
    schema_version: envelope.schema_version ?? 1,
    payload: envelope.payload_inline ?? null,
    payload_ref: envelope.payload_ref ?? null,
    result: returned.result,
    result_changed: returned.changed,
    unknown_outcomes: doubts.map(questionOf),
    callback,
    cost,
  };
}

function startable(env: EngineEnv, instance: Instance, catalog: Pick<Catalog, "workflows" | "elsewhere"> | undefined): Instance {
  if (instance.error !== null || !UNSEEN.has(instance.status)) return instance;
  const message = notStartable(env, instance.workflow, catalog);
  return message === undefined ? instance : { ...instance, error: { step: "", code: "config_invalid", message, attempts: 0 } };
}

function questionOf({ key, step, item, updated_at, error, answered, consequences }: Doubt): InstanceDetail["unknown_outcomes"][number] {
  return {
    step: labelOf(step, item),
    effect: key,
    since: updated_at,
    why: error?.message ?? null,
    confirm: `/v1/effects/${key}/confirm`,
    reject: consequences.reject && `/v1/effects/${key}/reject`,
    retry: consequences.retry && `/v1/effects/${key}/retry`,
    answered,
    consequences,
  };
}

/** Maximum number of queries for a result, which the platform stores moments after the row records the instance's end. */
const MAX_LOOKS = 8;
const LOOK_PAUSE_MS = 30;

async function answerOf(env: EngineEnv, { id, workflow, status, undo_action }: Instance): Promise<PlatformAnswer> {
  for (let look = 1; ; look++) {
    const answer = await askPlatform(env, workflow, platformId(id, undo_action));
    if (status !== "complete" || !AT_WORK.has(answer.status) || look === MAX_LOOKS) return answer;
    await scheduler.wait(LOOK_PAUSE_MS);
  }
}

const AT_WORK: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);

/** The id of the delivery is derived from the end of the instance. */
async function callbackOf(
  env: EngineEnv,
  by: Operator,
  id: string,
  url: string | undefined,
  column: unknown,
): Promise<InstanceDetail["callback"]> {
  if (url === undefined) return null;
  const called = calledIn(column);
  if (called === null) return { url, called, told: null, delivery: null };
  const callId = instanceId(by.tenantId, SEND_CALLBACK, nameOfEnd({ id, ...called }));
  const [row] = await query<DeliveryRow>(
    env.DB,
    sql`SELECT id, status, error FROM millrace_instances WHERE id = ${callId} AND tenant_id = ${by.tenantId}`,
  );
  const delivery = row ? await deliveryOf(env, SEND_CALLBACK, row) : null;
  return { url, called, told: delivery?.status === "complete" ? called : null, delivery };
}

function calledIn(column: unknown): CalledEnd | null {
  const [, run, status] = /^(\d+):(\w+)$/.exec(String(column)) ?? [];
  return run && status ? { run: Number(run), status } : null;
}
