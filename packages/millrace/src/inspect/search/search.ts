import * as z from "zod";
import type { Asker } from "../../access/may-ask.ts";
import { findArchived } from "../../archive/read.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { iso, isoOrNull, timestamp } from "../../contract/row.ts";
import { isTraceparent, traceIdOf } from "../../contract/trace.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { type Finder, Finding, type KnownNames, MOST_OF_A_KIND, type Sought } from "./finder.ts";
import { byId, ENGINE_FINDERS, LOOKED_BACK, lookedBackTo } from "./finders.ts";

const MOST = 50;

/** Exact matches precede prefix matches; among equal matches, the finders determine the order. */
export const Findings = z.object({
  items: z.array(Finding),
  more: z.array(z.string()).describe(`Kinds with more results than the ${MOST_OF_A_KIND} shown.`),
  scanned: z.object({
    instances: z.int().describe("The number of newest instances scanned for a subject or a trace."),
    since: timestamp.nullable().describe("When the oldest scanned instance was accepted; null if all were scanned."),
  }),
});
type Findings = z.infer<typeof Findings>;

/** One round trip. Its cost does not depend on the size of the database. `own` contains the app's finders. */
export async function search(
  env: Pick<EngineEnv, "DB" | "PAYLOADS">,
  by: Asker,
  said: string,
  { known, own = [] }: { known: KnownNames; own?: readonly Finder[] },
): Promise<Findings> {
  const typed = said.trim();
  const sought: Sought = { text: isTraceparent(typed) ? traceIdOf(typed) : typed, by, known };
  const asked = [...ENGINE_FINDERS, ...own].flatMap((finder) => {
    const statement = finder.look(sought);
    return statement === undefined ? [] : [{ finder, statement }];
  });
  const answered = await namedBatch<string>(env.DB, {
    end: lookedBackTo(sought),
    ...Object.fromEntries(asked.map(({ statement }, index) => [`found ${index}`, statement])),
  });
  const found = asked.flatMap(({ finder: { kind, read } }, index) =>
    (answered[`found ${index}`] ?? []).flatMap((row) => {
      const one = read(row, sought);
      return one === undefined ? [] : [{ kind, ...one, at: isoOrNull(one.at) }];
    }),
  );
  if (!found.some(({ kind }) => kind === "instance")) found.push(...(await archived(env, sought)));
  const since = answered.end?.[0]?.at;
  return { ...bounded(found), scanned: { instances: LOOKED_BACK, since: since === undefined ? null : iso(Number(since)) } };
}

/** Finds an archived instance by its whole id. Its key finds the tombstone. */
async function archived(env: Pick<EngineEnv, "DB" | "PAYLOADS">, sought: Sought): Promise<Finding[]> {
  const id = sought.text.toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(id)) return [];
  const [row] = (await findArchived(env, sought.by, id))?.rows.millrace_instances ?? [];
  const one = row && byId.read({ ...row, title: JSON.stringify([row.workflow, row.subject]), at: row.accepted_at }, sought);
  return one === undefined ? [] : [{ kind: byId.kind, ...one, at: isoOrNull(one.at) }];
}

function bounded(found: readonly Finding[]): Pick<Findings, "items" | "more"> {
  const ranked = [...found].sort((a, b) => Number(a.match === "prefix") - Number(b.match === "prefix"));
  const once = new Map(ranked.toReversed().map((one) => [JSON.stringify([one.kind, one.id]), one]));
  const things = ranked.filter((one) => once.get(JSON.stringify([one.kind, one.id])) === one);
  const counts = new Map<string, number>();
  const items = things.filter(({ kind }) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count <= MOST_OF_A_KIND;
  });
  return {
    items: items.slice(0, MOST),
    more: [...counts].filter(([, count]) => count > MOST_OF_A_KIND).map(([kind]) => kind),
  };
}
