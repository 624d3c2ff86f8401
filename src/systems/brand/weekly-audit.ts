import { digest, type Statement } from "millrace";
import { ensureSchedule } from "millrace/operate";
import { BRAND_AGENT, BrandAudit } from "../../messages/brand.ts";

/** Two days: an audit is worth having on Wednesday as well. */
const LATE_MS = 2 * 86_400_000;
/** From three to eight: before people come to work in Europe, and after they have gone in America. */
const FIRST_HOUR = 3;
const HOURS = 5;

/**
 * Each brand that plans is audited early on Mondays (UTC), by a schedule named after it, at a minute of its own: not all at once. People
 * change or pause it like any other.
 */
export function weeklyAudit(tenantId: string, brand: string): Statement {
  const minute = Number.parseInt(digest("weekly audit", tenantId, brand).slice(0, 8), 16);
  return ensureSchedule({ tenantId, actor: BRAND_AGENT }, `audit-${brand}`, {
    cron: `${minute % 60} ${FIRST_HOUR + (minute % HOURS)} * * 1`,
    timeZone: "UTC",
    command: BrandAudit.type,
    payload: { brand },
    lateMs: LATE_MS,
  });
}
