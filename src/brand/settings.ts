import { type Duration, now, query, sql } from "../engine/index.ts";

/** What people allow a brand. */
export interface BrandSettings {
  /** Articles that may be drafts, or on their way to becoming one, before nothing new is begun. Default 5. */
  max_drafts: number;
  /** Commands a second that the agent fans out, at most. Default 2. */
  rate_per_second: number;
  /** Whether a person says yes before an article is published. Default `none`. */
  approval: "none" | "required";
  /** How long a person may take, such as `"3 days"`. Default 3 days. */
  approval_timeout: Duration;
  /** What is true when nobody has answered by then. Default `reject`: what nobody has read is not published. */
  approval_default: "approve" | "reject";
}

/** Settings as somebody put them. */
export interface ChangedSettings extends BrandSettings {
  /** In milliseconds; null for the defaults, which nobody put. */
  updated_at: number | null;
  updated_by: string | null;
}

export const DEFAULT_SETTINGS: BrandSettings = {
  max_drafts: 5,
  rate_per_second: 2,
  approval: "none",
  approval_timeout: "3 days",
  approval_default: "reject",
};

/** Bounds of what is put. */
export const SETTINGS_LIMITS = {
  maxDrafts: 1000,
  /** Slowest is one a minute, so that a longest cycle is under way within the day. */
  rate: { least: 1 / 60, most: 100 },
} as const;

/** What a brand allows; the defaults for a brand that nobody has set anything for. */
export async function brandSettings(db: D1Database, tenantId: string, brand: string): Promise<BrandSettings> {
  const { updated_at: _, updated_by: __, ...settings } = await changedSettings(db, tenantId, brand);
  return settings;
}

/** The same, with who put them and when. */
export async function changedSettings(db: D1Database, tenantId: string, brand: string): Promise<ChangedSettings> {
  const [row] = await query<ChangedSettings>(
    db,
    sql`
      SELECT max_drafts, rate_per_second, approval, approval_timeout, approval_default, updated_at, updated_by
      FROM brands WHERE tenant_id = ${tenantId} AND brand = ${brand}`,
  );
  return row ?? { ...DEFAULT_SETTINGS, updated_at: null, updated_by: null };
}

/** Puts a brand's settings: all of them, whatever was there. */
export async function putSettings(db: D1Database, tenantId: string, brand: string, settings: BrandSettings, who: string): Promise<void> {
  const { max_drafts, rate_per_second, approval, approval_timeout, approval_default } = settings;
  await query(
    db,
    sql`
      INSERT INTO brands (tenant_id, brand, max_drafts, rate_per_second, approval, approval_timeout, approval_default, updated_at, updated_by)
      VALUES (${tenantId}, ${brand}, ${max_drafts}, ${rate_per_second}, ${approval}, ${approval_timeout}, ${approval_default}, ${now}, ${who})
      ON CONFLICT (tenant_id, brand) DO UPDATE SET
        max_drafts = excluded.max_drafts, rate_per_second = excluded.rate_per_second, approval = excluded.approval,
        approval_timeout = excluded.approval_timeout, approval_default = excluded.approval_default,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
      WHERE tenant_id = ${tenantId}`,
  );
}
