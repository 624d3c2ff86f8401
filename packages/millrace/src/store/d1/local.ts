import { within } from "../../contract/within.ts";

/** The value of `meta.served_by` for a local database of wrangler or a test; in production it is the name of another server. */
const LOCAL_SERVER = "miniflare.db";

/** True when the database runs locally, and therefore also the platform. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
