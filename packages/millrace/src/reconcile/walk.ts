import type { EngineEnv } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { runSlices } from "../contract/slices.ts";
import { within } from "../contract/within.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import {
  countWatched,
  type DivergenceKey,
  type DivergenceState,
  dropSuspicions,
  noteGone,
  noteRepaired,
  noteSeen,
  putLookOff,
  type Sighting,
  selectDueLooks,
} from "../store/divergences.ts";
import type { Catalog } from "../topology/catalog.ts";
import { entries } from "./checks/entries.ts";
import { homes } from "./checks/homes.ts";
import { lanes, locks } from "./checks/objects.ts";
import { outbox, promises, schedules } from "./checks/overdue.ts";
import { ends, setBack } from "./checks/platform.ts";
import { doubts, instances, letters, payloads } from "./checks/records.ts";
import { sleepers } from "./checks/sleepers.ts";
import type { Check, Checked, Divergence } from "./scan.ts";

/** Time limit of the checks in one round, in milliseconds. */
const BUDGET_MS = 400;
/** Time limit of one slice in milliseconds, so that a hanging slice does not delay the next check. */
const SLICE_LIMIT_MS = 10_000;
/** Maximum number of rechecked divergences in one round. */
const LOOKS = 100;
/** Maximum number of recorded divergences per kind. */
const MAX_WATCHED = 1000;

/** Executes the checks of one keeper round: the round first rechecks earlier findings, then continues the scans. Each finding is logged. */
export async function walk(storage: DurableObjectStorage, env: EngineEnv, checks: readonly Check[]): Promise<void> {
  const until = Date.now() + BUDGET_MS;
  await lookAgain(env, checks, until);
  await runSlices(storage, "reconcile", checks, until, async (check, from) => {
    const seen = await seeFrom(env, check, from);
    return seen && { next: seen.next, isOver: seen.next === null };
  });
}

interface Due extends DivergenceKey {
  foundBy: string;
  place: string;
  state: DivergenceState;
}

/**
 * Rechecks divergences that are due for a recheck. If a slice from the divergence's position does not find the divergence again, the
 * divergence no longer exists.
 */
async function lookAgain(env: EngineEnv, checks: readonly Check[], until: number): Promise<void> {
  const due = await query<Due>(env.DB, selectDueLooks(LOOKS));
  const met = new Set<string>();
  let looked = 0;
  for (const one of due) {
    if (met.has(keyOf(one))) continue;
    if (looked > 0 && Date.now() >= until) break;
    const check = checks.find(({ name }) => name === one.foundBy);
    const found = check && (await seeFrom(env, check, one.place));
    for (const other of found?.found ?? []) met.add(keyOf(other));
    if (!found) await query(env.DB, putLookOff([one]));
    else if (!met.has(keyOf(one))) await query(env.DB, one.state === "suspected" ? dropSuspicions([one]) : noteGone([one]));
    looked++;
  }
}

/** Runs one slice, records its findings, and repairs divergences found a second time. Returns undefined when the check failed. */
async function seeFrom(env: EngineEnv, check: Check, from: string | null): Promise<Checked | undefined> {
  try {
    const checked = await within(check.slice(env as unknown as Cloudflare.Env, from), SLICE_LIMIT_MS);
    if (checked.found.length > 0) await note(env, check, checked.found);
    return checked;
  } catch (error) {
    logLine("error", { log: "reconcile", check: check.name, error: messageOf(error) });
    return undefined;
  }
}

async function note(env: EngineEnv, check: Check, found: readonly Divergence[]): Promise<void> {
  const full = await fullKinds(env, found);
  const sightings = found.map((one): Sighting => ({ ...one, foundBy: check.name, isOneTooMany: full.has(one.kind) }));
  const { seen } = await namedBatch(env.DB, { seen: noteSeen(sightings) });
  const confirmed = (seen as unknown as (DivergenceKey & { state: DivergenceState; repairs: number })[]).filter(
    ({ state }) => state === "open",
  );
  const byKey = new Map(found.map((one) => [keyOf(one), one]));
  const repaired: Divergence[] = [];
  for (const one of confirmed) {
    const divergence = byKey.get(keyOf(one));
    if (divergence && (await fix(env, check, divergence))) repaired.push(divergence);
    if (divergence) logLine("warn", { log: "divergence", ...shown(divergence), repaired: repaired.includes(divergence) });
  }
  if (repaired.length > 0) await query(env.DB, noteRepaired(repaired.map(({ kind, what }) => ({ kind, what }))));
}

/** The kinds of divergence that have the maximum number of recorded divergences. */
async function fullKinds(env: EngineEnv, found: readonly Divergence[]): Promise<ReadonlySet<string>> {
  const kinds = [...new Set(found.map(({ kind }) => kind))];
  const counts = await query<{ kind: string; count: number }>(env.DB, countWatched(kinds, MAX_WATCHED));
  return new Set(counts.filter(({ count }) => count >= MAX_WATCHED).map(({ kind }) => kind));
}

/** Repairs a divergence, and returns true if the repair succeeded. A failed repair is tried again at the next check. */
async function fix(env: EngineEnv, check: Check, found: Divergence): Promise<boolean> {
  const { fix: byItsDoor } = check.kinds[found.kind] ?? {};
  if (!byItsDoor) return false;
  try {
    await within(byItsDoor(env as unknown as Cloudflare.Env, found), SLICE_LIMIT_MS);
    return true;
  } catch (error) {
    logLine("error", { log: "reconcile", check: check.name, kind: found.kind, what: found.what, error: messageOf(error) });
    return false;
  }
}

const keyOf = ({ kind, what }: DivergenceKey) => `${kind} ${what}`;

const shown = ({ kind, what, detail }: Divergence) => ({ kind, what, detail });

/**
 * The engine's own checks. Records in progress are checked each hour, other records once a day. docs/reconciliation.md lists the kinds of
 * divergence, and a test compares the page with this list.
 */
export const engineChecks = (catalog?: Catalog): readonly Check[] => [
  sleepers,
  doubts,
  outbox(catalog),
  letters,
  promises,
  schedules,
  locks,
  lanes,
  homes,
  instances,
  entries(catalog),
  ends,
  setBack,
  payloads,
];
