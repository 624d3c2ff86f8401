import { within } from "../../contract/within.ts";

/** What a database of wrangler or of a test says of itself with every answer (`meta.served_by`); a deployed one names another server. */
const LOCAL_SERVER = "miniflare.db";

/** True where the database is on this machine, and with it the rest of the platform. */
export async function isLocal(db: D1Database): Promise<boolean> {
  const { meta } = await within(db.prepare("SELECT 1").run());
  return meta.served_by === LOCAL_SERVER;
}
