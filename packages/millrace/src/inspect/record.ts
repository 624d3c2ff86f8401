import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { component, rowOf } from "../contract/row.ts";
import { sql } from "../contract/sql.ts";
import { type Answered, answerEventType, asApproval, selectAnswered } from "../signals/approval.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { selectWhole } from "../store/inbox/read.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";
import { type StoredStep, storedSteps } from "./history.ts";
import { unknownInstance } from "./instances.ts";
import type { Redaction } from "./redaction.ts";

/** `omitted` is 1 for an output that is too large for the record. */
export interface RecordedEntry extends Omit<Seen, "small"> {
  readonly class: RecordedClass;
  readonly output: string | null;
  readonly omitted: number | null;
}

const RecordedWait = z.object({ name: z.string(), type: z.string(), subject: z.string(), is_over: z.boolean() });

/** An object of the engine, which the API documents without its fields. */
const internal = <Of>() => z.looseObject({}) as unknown as z.ZodType<Of>;

export const RunRecord = component("RunRecord", {
  id: z.string(),
  workflow: z.string(),
  version: z.int(),
  status: z.enum(INSTANCE_STATUSES),
  run: z.int(),
  envelope: z.looseObject({}).describe("The message of the instance."),
  left: z.string().nullable().describe("The state that earlier runs left to later replays, as JSON."),
  lost: z.string().nullable().describe("The steps without a record after a restore of the database, as JSON."),
  entries: z.array(internal<RecordedEntry>()).describe("The recorded effects, with their order and outputs."),
  waits: z.array(RecordedWait),
  events: z.looseObject({}).describe("The received events and answers."),
  steps: z.array(internal<StoredStep>()).describe("The steps of the platform, with their outputs."),
  is_redacted: z.boolean().describe("True if sensitive values are hidden, so that a replay could take another path."),
});
export type RunRecord = z.infer<typeof RunRecord>;

/** Maximum length of an output. */
const MOST_CHARACTERS = 65_536;

/** Errors: `instance_not_found`. */
export async function recordOf(env: EngineEnv, by: Operator, id: string, redaction: Redaction): Promise<RunRecord> {
  const { instance, entries, waits, answered } = await namedBatch(env.DB, {
    instance: sql`
      SELECT id, workflow, version, status, run, envelope, caught AS left, lost
      FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`,
    entries: selectWhole(id, MOST_CHARACTERS),
    waits: sql`
      SELECT w.name, w.type, w.subject, w.event_type, w.over_at IS NOT NULL AS is_over, s.envelope
      FROM millrace_waits w LEFT JOIN millrace_signals s ON s.id = w.signal_id WHERE w.instance_id = ${id}`,
    answered: selectAnswered(id),
  });
  const [row] = instance;
  if (row === undefined) throw unknownInstance(id);
  const hide = (await redaction.ofInstances(env, by, [id]))(id);
  const envelope = JSON.parse(String(row.envelope ?? "null"));
  const known = {
    ...(row as unknown as Pick<RunRecord, "id" | "workflow" | "version" | "status" | "run" | "left" | "lost">),
    envelope,
    entries: entries as unknown as RecordedEntry[],
    waits: waits.map((wait) => rowOf(RecordedWait, wait)),
    events: Object.fromEntries([
      ...waits.flatMap(({ event_type, envelope: event }) => (event ? [[String(event_type), JSON.parse(String(event))]] : [])),
      ...(answered as unknown as Answered[]).map((one) => [answerEventType(one.id), asApproval(one)]),
    ]),
    steps: (await storedSteps(env, String(row.workflow), id)).map(shortened),
  };
  const shown = hide({
    ...known,
    envelope: envelope && { ...envelope, payload_inline: redaction.payload(envelope, envelope.payload_inline) },
  });
  return { ...shown, is_redacted: JSON.stringify(shown) !== JSON.stringify(known) };
}

/** Replaces an output that is too large for the record by `{ omitted: true }`. */
function shortened(step: StoredStep): StoredStep {
  return JSON.stringify(step.output).length <= MOST_CHARACTERS ? step : { ...step, output: { omitted: true } };
}
