import { runInDurableObject } from "cloudflare:test";

/** All rows in the storage of a Durable Object, as text. The text is empty when nothing is stored. */
export async function keptIn(stub: unknown): Promise<string> {
  return runInDurableObject(stub as DurableObjectStub, async (_, { storage }) => {
    const tables = storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*'");
    const texts = tables.toArray().map(({ name }) => storage.sql.exec(`SELECT * FROM "${name}"`).toArray());
    const values = [...(await storage.list())];
    const alarm = await storage.getAlarm();
    return values.length + texts.length + (alarm ?? 0) === 0 ? "" : JSON.stringify([texts, values, alarm]);
  });
}
