import { call, defineCommand, defineEvent, defineWorkflow, on, project, sendEach, sensitive, type WorkflowCall } from "millrace";
import * as z from "zod";
import { labsInFlow } from "./limited.ts";
import { probeCommands, probeEvents } from "./messages.ts";
import { mode } from "./mode.ts";

/** A person in a payload; the email address and the year of birth are personal data. */
const person = z.object({ email: sensitive(z.string()), born: z.int().meta({ sensitive: true }).optional(), city: z.string() });

const requested = z.object({ name: z.string(), note: z.string().default(""), person: person.optional() });

/** Starts a run of the workflow `lab`, which executes the code that a test has registered in `labs` under this name. */
export const LabRequested = defineCommand({
  type: "lab.requested",
  payload: requested,
  key: ({ name }) => name,
  tags: ({ note }) => (note === "vip" ? ["note:vip"] : []),
  subject: ({ name }) => name,
  queue: probeCommands,
});

/** Starts a run of `lab`. With `row` it writes a row instead, which the database refuses when `row` is `poison`. */
export const LabEvent = defineEvent({
  type: "lab.event",
  payload: z.object({ name: z.string(), note: z.string().default(""), row: z.string().optional(), person: person.optional() }),
  subject: ({ name }) => name,
  queue: probeEvents,
});

/** An event without a route, as if its author had forgotten to add one. */
export const LabOrphan = defineEvent({
  type: "lab.orphan",
  payload: z.object({ name: z.string() }),
  subject: ({ name }) => name,
  queue: probeEvents,
});

export type LabCall = WorkflowCall<{ name: string; note: string; person?: z.infer<typeof person> | undefined }>;

type LabCode = (call: LabCall) => Promise<unknown>;

/** The workflow code of each run of `lab`, by the run's name. */
export const labs = new Map<string, LabCode>();

/** The number of replays of each instance's code. */
export const labPasses = new Map<string, number>();

/** The version of `lab` in the deployed code, and the functions of its earlier versions. A test that changes them resets them. */
export const deployed: { version: number; previous: Record<number, LabCode> } = { version: 1, previous: {} };

export const lab = defineWorkflow({
  name: "lab",
  on: LabRequested,
  get version() {
    return deployed.version;
  },
  get previous() {
    return deployed.previous;
  },
  get steps() {
    return mode.steps;
  },
  run: runLab,
});

async function runLab(call: LabCall): Promise<unknown> {
  labPasses.set(call.instanceId, (labPasses.get(call.instanceId) ?? 0) + 1);
  const code = labs.get(call.payload.name);
  if (!code) throw new Error(`No test has written the code of ${call.payload.name}.`);
  return code(call);
}

/** The same workflow with flow control. */
export const limitedLabs = labsInFlow({ payload: requested, run: runLab });

const INSERT_ROW = `
  INSERT INTO probe_rows (id, kind, name) SELECT value->>'id', value->>'kind', value->>'name' FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`;

/** Writes the row that an event names. */
export const keepLabRow = project<{ name: string; row?: string | undefined }>(
  ({ payload: { name, row }, envelope: { idempotency_key: id } }) =>
    row === undefined ? undefined : { text: INSERT_ROW, row: { id, kind: row === "poison" ? null : row, name } },
);

/** The code that the event's route calls, by the name in the event. */
export const labCalls = new Map<string, () => Promise<unknown>>();

export const labRoute = on(
  LabEvent,
  sendEach(LabRequested, ({ payload: { name, note, row } }) => (row === undefined ? [{ name, note }] : [])),
  keepLabRow,
  call<{ name: string }>(async ({ payload: { name } }) => void (await labCalls.get(name)?.())),
);
