import { ensureSchedule, type Statement } from "../engine/index.ts";
import { BrandAudit } from "../messages/brand.ts";

/** Two days: an audit is worth having on Wednesday as well. */
const LATE_MS = 2 * 86_400_000;

/** Each brand that plans is audited on Mondays at seven (UTC), by a schedule named after it. People change or pause it like any other. */
export function weeklyAudit(tenantId: string, brand: string): Statement {
  return ensureSchedule({ tenantId, actor: "brand-agent" }, `audit-${brand}`, {
    cron: "0 7 * * 1",
    timeZone: "UTC",
    command: BrandAudit.type,
    payload: { brand },
    lateMs: LATE_MS,
  });
}
