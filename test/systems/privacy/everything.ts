import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Json } from "../../api/client.ts";

/** Every existing kind of object. */
export const OBJECTS = [
  "RECORDER",
  "KEEPER",
  "LEDGER",
  "BUDGET",
  "CONTACT_BOOK",
  "BRAND_AGENT",
  "RATE_LIMIT",
  "LOCK",
  "COUNTER",
  "EMBEDDED_LEDGER",
  "EMBEDDED_CRM_STORE",
] as const satisfies readonly (keyof Env)[];

/** A place of stored data, and its content as text. */
export interface Kept {
  place: string;
  text: string;
}

/** All stored data: each row of each table, each object of each bucket with its name, and the whole storage of each Durable Object. */
export async function everything(): Promise<Kept[]> {
  return (await Promise.all([ofDatabase(), ofBucket("PAYLOADS"), ofBucket("PAGES"), ...OBJECTS.map(ofObjects)])).flat();
}

/** The places that contain one of these words, in upper or lower case. */
export async function placesOf(words: readonly string[]): Promise<string[]> {
  const sought = words.map((word) => word.toLowerCase());
  return (await everything())
    .filter(({ place, text }) => sought.some((word) => `${place}\n${text}`.toLowerCase().includes(word)))
    .map(({ place, text }) => `${place}: ${around(text, sought)}`);
}

function around(text: string, words: readonly string[]): string {
  const at = Math.max(...words.map((word) => text.toLowerCase().indexOf(word)));
  return text.slice(Math.max(0, at - 120), at + 60);
}

async function ofDatabase(): Promise<Kept[]> {
  const { results } = await env.DB.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*'").all<Json>();
  const tables = results.map(async ({ name }): Promise<Kept[]> => {
    const { results: rows } = await env.DB.prepare(`SELECT * FROM "${name}"`).all();
    return rows.map((row) => ({ place: `table ${name}`, text: JSON.stringify(row) }));
  });
  return (await Promise.all(tables)).flat();
}

async function ofBucket(name: "PAYLOADS" | "PAGES"): Promise<Kept[]> {
  const kept: Kept[] = [];
  for (let cursor: string | undefined, more = true; more; ) {
    const found = await env[name].list(cursor === undefined ? {} : { cursor });
    for (const { key } of found.objects) kept.push({ place: `${name} ${key}`, text: (await (await env[name].get(key))?.text()) ?? "" });
    more = found.truncated;
    cursor = found.truncated ? found.cursor : undefined;
  }
  return kept;
}

async function ofObjects(name: (typeof OBJECTS)[number]): Promise<Kept[]> {
  const namespace = env[name] as DurableObjectNamespace;
  const ids = await listDurableObjectIds(namespace);
  return Promise.all(
    ids.map((id) =>
      runInDurableObject(namespace.get(id), async (_instance, { storage }) => {
        const tables = [
          ...storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*'"),
        ];
        const rows = tables.map(({ name: table }) => [table, [...storage.sql.exec(`SELECT * FROM "${table}"`)]]);
        return { place: `${name} ${id}`, text: JSON.stringify([rows, [...(await storage.list())]]) };
      }),
    ),
  );
}
