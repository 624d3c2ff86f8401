import { among, type Statement, sql } from "../../contract/sql.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { GOING_ON, type InstanceStatus, RETRYABLE, UNDER_WAY } from "../../store/instances/status.ts";
import type { Outcome } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb } from "../../topology/catalog.ts";
import { type BulkCall, type BulkVerb, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import { cancelInstance, planCancel } from "../instances/cancel.ts";
import { closeInstance, planClose } from "../instances/close.ts";
import { pauseInstance, planPause, planResume, resumeInstance } from "../instances/pause.ts";
import { planRetry, retryInstance } from "../instances/retry.ts";
import { instanceFilter, instanceMembers } from "./filters.ts";
import { BECAME, type Became, outcomeOf } from "./instance-outcome.ts";
import { unknownOfInstances } from "./unknown-names.ts";

/** An action on one instance, as its own route performs it. */
interface OfInstances {
  readonly name: string;
  readonly follows?: NonNullable<BulkVerb["follows"]>;
  readonly from: readonly InstanceStatus[];
  /** The default status of a filter. If omitted, a filter must name a status. */
  readonly usual?: InstanceStatus;
  /** True where the action undoes effects unless the request has `undo: false`. */
  readonly takesBack?: boolean;
  readonly plan: (env: BulkCall["env"], by: Operator, id: string) => Promise<{ refused: string | null }>;
  readonly act: (env: BulkCall["env"], by: Operator, id: string, reason: string, undo: boolean) => Promise<unknown>;
  /** Outcomes of the instances that run because of the action. Default: each is done at once. */
  readonly outcomes?: NonNullable<BulkVerb["outcomes"]>;
}

function ofInstances({ name, follows, from, usual, takesBack = false, plan, act, outcomes }: OfInstances): AnyBulkVerb {
  return defineBulkVerb({
    name,
    noun: "instances",
    filter: instanceFilter(from, usual),
    members: instanceMembers,
    unknown: unknownOfInstances,
    takesBack,
    async act({ env, by, reason, undo }, id) {
      await act(env, by, id, reason, undo);
      return { changed: true };
    },
    refusal: async ({ env, by }, id) => (await plan(env, by, id)).refused,
    isSpent: async (call, id) => !(await isIn(call, id, from)),
    ...(outcomes && { outcomes }),
    ...(follows && { follows }),
  });
}

async function ends({ env, by }: BulkCall, acted: readonly { id: string }[]): Promise<ReadonlyMap<string, Outcome>> {
  const rows = await query<Became & { id: string }>(
    env.DB,
    sql`SELECT i.id, ${BECAME} FROM millrace_instances i
      WHERE i.id IN ${among(acted.map(({ id }) => id))} AND +i.tenant_id = ${by.tenantId}`,
  );
  return new Map(rows.flatMap((row): [string, Outcome][] => pairOf(row.id, outcomeOf(row))));
}

function pairOf(id: string, outcome: Outcome | undefined): [string, Outcome][] {
  return outcome === undefined ? [] : [[id, outcome]];
}

async function isIn({ env, by }: BulkCall, id: string, statuses: readonly InstanceStatus[]): Promise<boolean> {
  const found = await query(
    env.DB,
    sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId} AND status IN ${among(statuses)}`,
  );
  return found.length > 0;
}

/** A retry of undone instances runs all their effects again: a sentence with their number. Null for none. */
async function doneAgain({ env, by }: BulkCall, members: Statement): Promise<string | null> {
  const [{ undone } = { undone: 0 }] = await query<{ undone: number }>(
    env.DB,
    sql`
      SELECT count(*) AS undone FROM (${members}) t JOIN millrace_instances i ON i.id = t.id
      WHERE i.tenant_id = ${by.tenantId} AND i.undone = 1`,
  );
  if (undone === 0) return null;
  const begin =
    undone === 1
      ? "1 of these instances was undone: it starts from the beginning and repeats"
      : `${undone} of these instances were undone: they start from the beginning and repeat`;
  return `${begin} the effects that were undone. Answers and events of the first run are used again: no question is asked twice.`;
}

const TAKEN_BACK =
  "Their effects are undone where an undo handler exists. A cancel cannot be stopped once it has begun. With `undo: false`, their effects remain.";
const STANDS =
  "The instances are terminated and their effects remain. A cancel cannot be stopped once it has begun. You can undo each instance later.";

export const INSTANCE_VERBS: readonly AnyBulkVerb[] = [
  ofInstances({
    ...{ name: "retry", from: RETRYABLE.values, usual: "errored", plan: planRetry, outcomes: ends, follows: doneAgain },
    act: (env, by, id, reason) => retryInstance(env, by, id, { reason }),
  }),
  ofInstances({
    ...{ name: "cancel", from: UNDER_WAY.values, takesBack: true, plan: planCancel, outcomes: ends },
    act: (env, by, id, reason, undo) => cancelInstance(env, by, id, { reason, undo }),
    follows: async ({ undo }) => (undo ? TAKEN_BACK : STANDS),
  }),
  ofInstances({ name: "pause", from: GOING_ON.values, plan: planPause, act: pauseInstance }),
  ofInstances({ name: "resume", from: ["paused"], usual: "paused", plan: planResume, act: resumeInstance }),
  ofInstances({
    ...{ name: "close", from: RETRYABLE.values, usual: "errored", plan: planClose, act: closeInstance },
    follows:
      "Final: a closed instance cannot be retried or undone. Its effects remain, unless they are undone already. Lanes that these instances block continue.",
  }),
];
