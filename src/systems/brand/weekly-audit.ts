import { ids, type Statement } from "millrace";
import { schedules } from "millrace/operate";
import { BRAND_AGENT, BrandAudit } from "../../messages/brand.ts";

/** Maximum delay of an audit's start. The maximum is two days, because an audit on Wednesday is still useful. */
const LATE_MS = 2 * 86_400_000;
/** Audits start between 03:00 and 08:00 UTC, which is before working hours in Europe and after working hours in America. */
const FIRST_HOUR = 3;
const HOURS = 5;

/**
 * Each active brand is audited early on Mondays (UTC), by a schedule that is named after the brand. The minute of the audit differs per
 * brand, to spread the load. Operators can change or pause the schedule.
 */
export function weeklyAudit(tenantId: string, brand: string): Statement {
  const minute = Number.parseInt(ids.digest("weekly audit", tenantId, brand).slice(0, 8), 16);
  return schedules.ensure({ tenantId, actor: BRAND_AGENT }, `audit-${brand}`, {
    cron: `${minute % 60} ${FIRST_HOUR + (minute % HOURS)} * * 1`,
    timeZone: "UTC",
    command: BrandAudit,
    payload: { brand },
    lateMs: LATE_MS,
  });
}
