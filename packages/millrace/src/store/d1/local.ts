import { within } from "../../contract/within.ts";

/** The value of `meta.served_by` if the database runs in wrangler or in a test. In production the value names a server of D1. */
const LOCAL_SERVER = "miniflare.db";

/** True if the database runs locally. If the database runs locally, the whole platform runs locally too. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
