import { within } from "../../contract/within.ts";

/** `meta.served_by` of a database of wrangler or a test; in production it is the name of another server. */
const LOCAL_SERVER = "miniflare.db";

/** True when the database, and so the platform, runs locally. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
