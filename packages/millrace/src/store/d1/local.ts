import { within } from "../../contract/within.ts";

/** The value of `meta.served_by` if the database runs in wrangler or in a test. In production it names the server of D1. */
const LOCAL_SERVER = "miniflare.db";

/** True when the database runs locally, and therefore also the platform. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
