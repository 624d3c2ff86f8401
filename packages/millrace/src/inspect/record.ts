import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import { type Answered, answerEventType, asApproval, selectAnswered } from "../signals/approval.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { selectWhole } from "../store/inbox/read.ts";
import type { InstanceStatus } from "../store/instances/status.ts";
import { type StoredStep, storedSteps } from "./history.ts";
import { unknownInstance } from "./instances.ts";
import type { Redaction } from "./redaction.ts";

/** The records of the engine and the platform that a replay of a run reads. */
export interface RunRecord {
  readonly id: string;
  readonly workflow: string;
  readonly version: number;
  readonly status: InstanceStatus;
  readonly run: number;
  readonly envelope: unknown;
  /** The information that earlier runs stored for later replays, as JSON. */
  readonly left: string | null;
  readonly lost: string | null;
  readonly entries: readonly RecordedEntry[];
  readonly waits: readonly { name: string; type: string; subject: string; is_over: boolean }[];
  /** The payloads of the events that the run has received, by the platform's event type. */
  readonly events: Readonly<Record<string, unknown>>;
  readonly steps: readonly StoredStep[];
  /** True if sensitive values are hidden, so that a replay could take another path. */
  readonly is_redacted: boolean;
}

/** An inbox entry with its output; `left_out` is 1 for an output that is too large for the record. */
export interface RecordedEntry extends Omit<Seen, "small"> {
  readonly class: RecordedClass;
  readonly output: string | null;
  readonly left_out: number | null;
}

/** Maximum length of an output in a record, in characters. */
const MOST_CHARACTERS = 65_536;

/** The record of an instance's run. Errors: `instance_not_found`. */
export async function recordOf(env: EngineEnv, by: Operator, id: string, redaction: Redaction): Promise<RunRecord> {
  const { instance, entries, waits, answered } = await namedBatch(env.DB, {
    instance: sql`
      SELECT workflow, version, status, run, envelope, caught, lost
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
  const { workflow, version, status, run, caught: left = null, lost = null } = row as unknown as RecordedRun;
  const envelope = JSON.parse(String(row.envelope ?? "null"));
  const known = {
    ...{ id, workflow, version, status, run, envelope, left, lost },
    entries: entries as unknown as RecordedEntry[],
    waits: waits.map(({ name, type, subject, is_over }) => ({
      ...{ name: String(name), type: String(type), subject: String(subject) },
      is_over: is_over === 1,
    })),
    events: Object.fromEntries([
      ...waits.flatMap(({ event_type, envelope: event }) => (event ? [[String(event_type), JSON.parse(String(event))]] : [])),
      ...(answered as unknown as Answered[]).map((one) => [answerEventType(one.id), asApproval(one)]),
    ]),
    steps: (await storedSteps(env, workflow, id)).map(shortened),
  };
  const shown = hide({
    ...known,
    envelope: envelope && { ...envelope, payload_inline: redaction.payload(envelope, envelope.payload_inline) },
  });
  return { ...shown, is_redacted: JSON.stringify(shown) !== JSON.stringify(known) };
}

type RecordedRun = Pick<RunRecord, "workflow" | "version" | "status" | "run"> & { caught?: string | null; lost?: string | null };

/** Replaces an output that is too large for the record by `{ left_out: true }`. */
function shortened(step: StoredStep): StoredStep {
  return JSON.stringify(step.output).length <= MOST_CHARACTERS ? step : { ...step, output: { left_out: true } };
}
