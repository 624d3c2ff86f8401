import { MillraceError, namedBatch, sql } from "millrace";

/** Maximum number of bytes that one tenant may upload in 24 hours. */
const MAX_DAILY_BYTES = 20 * 1024 ** 3;
const HOUR_MS = 3_600_000;
const HOURS = 24;
/**
 * The present time in whole hours since 1970. The divisor is a literal, because SQLite would treat a bound parameter as a floating-point
 * number.
 */
const hour = sql.fragment(`${sql.now.fragment} / ${HOUR_MS}`);

/**
 * Counts an upload before the upload is received, so that concurrent uploads cannot exceed the limit. An upload that fails also counts.
 * Uploads are counted per whole hour, so the period can be up to an hour shorter than a day. Errors: `rate_limited` if the tenant would
 * upload more than 20 GiB in a day.
 */
export async function countUpload(db: D1Database, tenantId: string, bytes: number): Promise<void> {
  const { counted } = await namedBatch(db, {
    old: sql`DELETE FROM uploads WHERE tenant_id = ${tenantId} AND hour <= ${hour} - ${HOURS}`,
    counted: sql`
      INSERT INTO uploads (tenant_id, hour, bytes)
      SELECT ${tenantId}, ${hour}, ${bytes}
      WHERE (SELECT coalesce(sum(bytes), 0) FROM uploads WHERE tenant_id = ${tenantId}) + ${bytes} <= ${MAX_DAILY_BYTES}
      ON CONFLICT (tenant_id, hour) DO UPDATE SET bytes = bytes + excluded.bytes
      RETURNING bytes`,
  });
  if (counted.length > 0) return;
  throw new MillraceError(
    "rate_limited",
    `A tenant uploads at most ${MAX_DAILY_BYTES / 1024 ** 3} GiB in a day, and this file would exceed that. It was not stored: send it a day after the earlier uploads, or put it into the bucket and name it in a \`manifest\`.`,
    { delayMs: HOUR_MS },
  );
}
