import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import { placed } from "../contract/location.ts";
import { logLine } from "../contract/log-line.ts";
import { currentVersion, type Params } from "../contract/params.ts";
import { within } from "../contract/within.ts";
import { REMEMBERED_DAYS, resultsKeptMs } from "../store/kept-days.ts";

/** An instance to create on the platform, with fields of its row. */
export interface Startable {
  readonly id: string;
  readonly workflow: string;
  readonly envelope: Envelope;
  /** The fields of the instance's row as JSON, if already serialized. */
  readonly row?: string;
  /** The version of the workflow to which the instance is bound; the present version for an instance that has not started. */
  readonly version?: number | undefined;
  /** The action id of the undo that is created instead of the instance itself. */
  readonly undo?: string | null;
}

/**
 * `first`: the instance was never created, so its first steps need no query of recorded results. `again`: the platform may have lost the
 * instance.
 */
type Occasion = "first" | "again";

/**
 * The platform's limit of one `createBatch` call: 100 instances or 1 MiB. The keeper creates at most half as many at once, so that the
 * platform's rate is also sufficient for new commands.
 */
const MAX_INSTANCES = { first: 100, again: 50 };
const MAX_BYTES = 900_000;

/** Time limit of one `createBatch` call, in milliseconds, so that a hanging call does not delay other instances. */
const CREATE_LIMIT_MS = 10_000;

/**
 * Pauses between a consumer's attempts to create instances, in milliseconds. The platform creates 100 instances of a workflow per second,
 * and refuses further instances. After the last pause, the keeper creates the remaining instances.
 */
const TURN_PAUSES_MS = [400, 800, 1600, 3200];

/**
 * The time in a minute for which the consumers of an isolate wait to create instances of a tenant's workflow, in milliseconds. Afterwards
 * the keeper creates this tenant's instances, so that the messages of other tenants in the queue are delivered.
 */
const MOST_WAIT_MS = 3000;
const waits = { since: 0, byTenant: new Map<string, { ms: number; until: number }>() };
const RATE_LIMITED = /\b429\b|rate.?limit|too many|throttl|limit (was |has been )?(exceeded|reached)/i;

/** The results of a creation, by instance id. An instance that is in none of the fields was created by this call. */
export interface Started {
  /** The platform's error for each instance that it did not create. */
  failed: Map<string, string>;
  /** The failed instances that the platform was not asked for, because it had refused earlier ones. */
  untried: Set<string>;
  existed: Set<string>;
}

/** True if the platform refused an instance because of its creation rate. */
export function isRateLimited(error: string | undefined): boolean {
  return RATE_LIMITED.test(error ?? "");
}

/**
 * Creates instances, many per call, those of all tenants in turn. An existing instance counts as success, because its name is its id.
 * Never throws.
 */
export async function startInstances(env: EngineEnv, instances: readonly Startable[], occasion: Occasion): Promise<Started> {
  const started: Started = { failed: new Map(), untried: new Set(), existed: new Set() };
  const note = (id: string, message: string) =>
    void (/already.exists/i.test(message) ? started.existed.add(id) : started.failed.set(id, message));
  const startAll = async (workflow: string, group: readonly Startable[]) => {
    let refusal: string | undefined;
    for (const chunk of chunks(inTurns(group), MAX_INSTANCES[occasion])) {
      if (refusal !== undefined) {
        for (const { id } of chunk) {
          started.failed.set(id, refusal);
          started.untried.add(id);
        }
        continue;
      }
      try {
        const creating = async () =>
          workflowBinding(env, workflow).createBatch({
            instances: chunk.map((instance) => ({
              id: platformId(instance.id, instance.undo ?? null),
              params: { ...paramsOf(instance, occasion), ...(env.CELL !== undefined && { cell: env.CELL }) },
              retention: { successRetention: resultsKeptMs(workflow), errorRetention: `${REMEMBERED_DAYS} days` },
              ...placed(env),
            })),
          });
        const { errors } = await within(creating(), CREATE_LIMIT_MS);
        for (const { index, message } of errors) {
          const id = chunk[index]?.id;
          if (id) note(id, message);
        }
        refusal = errors.find(({ message }) => isRateLimited(message))?.message;
      } catch (error) {
        const message = messageOf(error);
        if (codeOf(error) === "unavailable" || isRateLimited(message)) refusal = message;
        for (const { id } of chunk) note(id, message);
      }
    }
  };
  const groups = Map.groupBy(instances, (instance) => instance.workflow);
  await Promise.all([...groups].map(([workflow, group]) => startAll(workflow, group)));
  return started;
}

/**
 * Creates instances with committed rows. The keeper creates instances that cannot be created now, so the delivery does not fail and does
 * not count as a try. Never throws.
 */
export async function startInTurn(env: EngineEnv, instances: readonly Startable[]): Promise<Started> {
  const leaves = new Set(instances.filter((one) => waitOf(one).ms >= MOST_WAIT_MS));
  const started = await startInstances(
    env,
    instances.filter((one) => !leaves.has(one)),
    "first",
  );
  for (const { id } of leaves) started.failed.set(id, "The keeper creates the instances of this tenant.");
  for (const pauseMs of TURN_PAUSES_MS) {
    const refused = instances.filter((one) => isRateLimited(started.failed.get(one.id)) && waitOf(one).ms < MOST_WAIT_MS);
    if (refused.length === 0) break;
    const ms = pauseMs * (0.5 + Math.random());
    for (const wait of new Set(refused.map(waitOf))) {
      const until = Date.now() + ms;
      wait.ms += Math.max(0, until - Math.max(Date.now(), wait.until));
      wait.until = Math.max(until, wait.until);
    }
    await scheduler.wait(ms);
    const again = await startInstances(env, refused, "first");
    for (const { id } of refused) started.failed.delete(id);
    for (const [id, error] of again.failed) started.failed.set(id, error);
    // If an instance exists now, the previous call created the instance, although that call returned an error.
  }
  if (started.failed.size > 0) {
    logLine("warn", { log: "put_off", instances: started.failed.size, error: [...started.failed.values()][0] });
  }
  return started;
}

/** The time in the present minute for which consumers of this isolate have waited for instances of this tenant and workflow. */
function waitOf({ workflow, envelope }: Startable): { ms: number; until: number } {
  if (Math.abs(Date.now() - waits.since) > 60_000) {
    waits.since = Date.now();
    waits.byTenant.clear();
  }
  const key = `${workflow} of ${envelope.tenant_id}`;
  const wait = waits.byTenant.get(key) ?? { ms: 0, until: 0 };
  waits.byTenant.set(key, wait);
  return wait;
}

/** The first instance of each tenant, then the second of each, and so on. */
function inTurns(instances: readonly Startable[]): Startable[] {
  const turns = [...Map.groupBy(instances, ({ envelope }) => envelope.tenant_id).values()].flatMap((own) =>
    own.map((one, turn) => ({ one, turn })),
  );
  return turns.toSorted((a, b) => a.turn - b.turn).map(({ one }) => one);
}

function paramsOf({ id, envelope, undo, workflow, version = currentVersion(workflow) }: Startable, occasion: Occasion): Params {
  return {
    ...envelope,
    workflow,
    ...(version > 1 && { version }),
    ...(occasion === "first" && { created_ms: Date.now() }),
    ...(undo && { undoes: id }),
  };
}

function chunks(instances: readonly Startable[], most: number): Startable[][] {
  const all: Startable[][] = [[]];
  let bytes = 0;
  for (const instance of instances) {
    const size = byteLength(instance.row ?? JSON.stringify(instance.envelope));
    if (all.at(-1)?.length === most || bytes + size > MAX_BYTES) {
      all.push([]);
      bytes = 0;
    }
    all.at(-1)?.push(instance);
    bytes += size;
  }
  return all.filter((chunk) => chunk.length > 0);
}
