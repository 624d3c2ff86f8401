import { type Duration, fragment, MillraceError, namedBatch, notRetryable, now, query, type Statement, sql } from "millrace";
import { audit, type Operator } from "millrace/operate";

/** The operator's settings of a brand. */
export interface BrandSettings {
  /** Maximum number of articles that are drafts or in progress. At the limit, new keywords wait. Default 5. */
  max_drafts: number;
  /** Most commands per second that the agent sends. Default 2. */
  rate_per_second: number;
  /** The approval before an article's publication. Default `none`. */
  approval: "none" | "required";
  /** Time limit for the approval, such as `"3 days"`. Default 3 days. */
  approval_timeout: Duration;
  /** The decision after the time limit. Default `reject`: an unread article is not published. */
  approval_default: "approve" | "reject";
}

/** A brand's settings, with their author and time in milliseconds; null while the defaults apply. */
export interface KnownBrand extends BrandSettings {
  brand: string;
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

/** Limits of the settings. The lowest rate and the most drafts together stay within the 12 hours by which a queue can delay a message. */
export const SETTINGS_LIMITS = { maxDrafts: 1000, rate: { least: 0.05, most: 100 } } as const;

const COLUMNS = fragment("brand, max_drafts, rate_per_second, approval, approval_timeout, approval_default, updated_at, updated_by");

/** Most brands of one tenant: each has an agent and an audit schedule. */
const MAX_BRANDS = 1000;

/** True if this brand is known, or another one is allowed. */
function hasRoom(tenantId: string, brand: string): Statement {
  return sql`(EXISTS (SELECT 1 FROM brands WHERE tenant_id = ${tenantId} AND brand = ${brand})
    OR (SELECT count(*) FROM brands WHERE tenant_id = ${tenantId}) < ${MAX_BRANDS})`;
}

/** Errors: `not_retryable` for an unknown brand above the tenant's limit. */
export async function assertRoomForBrand(db: D1Database, tenantId: string, brand: string): Promise<void> {
  const [found] = await query<{ room: number }>(db, sql`SELECT ${hasRoom(tenantId, brand)} AS room`);
  if (found?.room !== 1) throw notRetryable(noRoom(brand).message);
}

function noRoom(brand: string, detail: { audited?: true } = {}): MillraceError {
  return new MillraceError(
    "invalid_transition",
    `A tenant has at most ${MAX_BRANDS} brands, and "${brand}" would exceed that: use an existing one.`,
    detail,
  );
}

/** A brand's settings, or the defaults. */
export async function brandSettings(db: D1Database, tenantId: string, brand: string): Promise<BrandSettings> {
  const { max_drafts, rate_per_second, approval, approval_timeout, approval_default } =
    (await findBrand(db, tenantId, brand)) ?? DEFAULT_SETTINGS;
  return { max_drafts, rate_per_second, approval, approval_timeout, approval_default };
}

/** A brand of a tenant; undefined without settings and decisions. */
export async function findBrand(db: D1Database, tenantId: string, brand: string): Promise<KnownBrand | undefined> {
  const [row] = await query<Row>(db, sql`SELECT ${COLUMNS} FROM brands WHERE tenant_id = ${tenantId} AND brand = ${brand}`);
  return row && asBrand(row);
}

/** A tenant's brands by name, after `after`. */
export async function listBrands(db: D1Database, tenantId: string, after: string, limit: number): Promise<KnownBrand[]> {
  const rows = await query<Row>(
    db,
    sql`SELECT ${COLUMNS} FROM brands WHERE tenant_id = ${tenantId} AND brand > ${after} ORDER BY brand LIMIT ${limit}`,
  );
  return rows.map(asBrand);
}

/**
 * Replaces all settings of a brand, and audits the change with its reason. Returns the brand. Errors: `invalid_transition` above the
 * tenant's limit.
 */
export async function putSettings(db: D1Database, by: Operator, brand: string, settings: BrandSettings, reason = ""): Promise<KnownBrand> {
  const { tenantId, actor: who } = by;
  const { max_drafts, rate_per_second, approval, approval_timeout, approval_default } = settings;
  const changed = { detail: { ...settings }, before: { ...(await brandSettings(db, tenantId, brand)) }, after: { ...settings } };
  const action = { id: crypto.randomUUID(), verb: "settings", target: brand, instanceId: null, reason, ...changed } as const;
  const { brands } = await namedBatch(db, {
    brands: sql`
      INSERT INTO brands (tenant_id, ${COLUMNS})
      SELECT ${tenantId}, ${brand}, ${max_drafts}, ${rate_per_second}, ${approval}, ${approval_timeout}, ${approval_default}, ${now}, ${who}
      WHERE ${hasRoom(tenantId, brand)}
      ON CONFLICT (tenant_id, brand) DO UPDATE SET
        max_drafts = excluded.max_drafts, rate_per_second = excluded.rate_per_second, approval = excluded.approval,
        approval_timeout = excluded.approval_timeout, approval_default = excluded.approval_default,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
      WHERE tenant_id = ${tenantId}
      RETURNING ${COLUMNS}`,
    audited: audit(by, action, false),
  });
  const [put] = brands as unknown as Row[];
  if (!put) throw noRoom(brand, { audited: true });
  return asBrand(put);
}

/** Records a brand without settings, if the limit allows it. */
export function noteBrand(tenantId: string, brand: string): Statement {
  return sql`INSERT INTO brands (tenant_id, brand) SELECT ${tenantId}, ${brand} WHERE ${hasRoom(tenantId, brand)} ON CONFLICT DO NOTHING`;
}

type Row = { [Name in keyof KnownBrand]: Name extends "brand" ? string : KnownBrand[Name] | null };

function asBrand({ brand, updated_at, updated_by, ...set }: Row): KnownBrand {
  const settings = updated_at === null ? DEFAULT_SETTINGS : (set as BrandSettings);
  return { brand, ...settings, updated_at, updated_by };
}
