import { type Duration, MillraceError, namedBatch, notRetryable, query, type Statement, sql } from "millrace";
import { audit, type Operator } from "millrace/operate";
import { MAIN, type Platform, type SiteKind } from "../../messages/targets.ts";
import { DEFAULT_STYLE, type Style } from "./templates.ts";

/** The operator's settings of a brand, with the template and the instructions of the brand's articles. */
export interface BrandSettings extends Style {
  /** Maximum number of articles that are drafts or in progress. At this limit, new keywords wait. Default 5. */
  max_drafts: number;
  /** Maximum commands per second that the agent sends. Default 2. */
  rate_per_second: number;
  /** `required` if a person must approve an article before the publication. Default `none`. */
  approval: "none" | "required";
  /** Time limit for the approval of an article, such as `"3 days"`. The default is 3 days. */
  approval_timeout: Duration;
  /**
   * The decision if nobody answers within the time limit. The default is `reject`, so that an article which nobody has read is not
   * published.
   */
  approval_default: "approve" | "reject";
  /** The sites of the brand's pages. By default the brand has one site `main`, from the deployment's variables. */
  sites: readonly Site[];
  /** The accounts that announce the brand's pages. By default the brand has one account `main`, from the deployment's variables. */
  accounts: readonly Account[];
  /** The name of the announced site. Posts link to the article's page on the announced site. The default, null, means the first site. */
  announced_site: string | null;
}

/** A site of a brand. `secret` is the name of the tenant's secret that contains the site's address and credential. */
export interface Site {
  name: string;
  kind: SiteKind;
  secret?: string | undefined;
}

/** A social account of a brand. */
export interface Account {
  name: string;
  platform: Platform;
  secret?: string | undefined;
}

/**
 * The settings of a brand, with the author and the time (in milliseconds) of the last change. Author and time are null while the defaults
 * apply.
 */
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
  sites: [{ name: MAIN, kind: "deployment" }],
  accounts: [{ name: MAIN, platform: "bluesky" }],
  announced_site: null,
  ...DEFAULT_STYLE,
};

/** Maximum number of sites, and of accounts, of one brand. Each article has an instance for each site and each account. */
export const MAX_TARGETS = 20;

/**
 * The limits of a brand's settings. With the lowest rate and the maximum number of drafts, the last command is delayed by less than 12
 * hours. A queue cannot delay a message longer.
 */
export const SETTINGS_LIMITS = { maxDrafts: 1000, rate: { least: 0.05, most: 100 } } as const;

const COLUMNS = sql.fragment(`brand, max_drafts, rate_per_second, approval, approval_timeout, approval_default, template, instructions,
    sites, accounts, announced_site, updated_at, updated_by`);

/** Maximum number of brands of one tenant. The limit exists because each brand has an agent and an audit schedule. */
const MAX_BRANDS = 1000;

/** The SQL condition that this brand exists, or that the tenant has fewer brands than the maximum. */
function hasRoom(tenantId: string, brand: string): Statement {
  return sql`(EXISTS (SELECT 1 FROM brands WHERE tenant_id = ${tenantId} AND brand = ${brand})
    OR (SELECT count(*) FROM brands WHERE tenant_id = ${tenantId}) < ${MAX_BRANDS})`;
}

/**
 * Checks whether the tenant may use this brand. Errors: `not_retryable` if the brand is new and the tenant has the maximum number of
 * brands.
 */
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

/** Reads the settings of a brand, or the defaults. */
export async function brandSettings(db: D1Database, tenantId: string, brand: string): Promise<BrandSettings> {
  const known = await findBrand(db, tenantId, brand);
  if (!known) return DEFAULT_SETTINGS;
  const { brand: _brand, updated_at: _at, updated_by: _by, ...settings } = known;
  return settings;
}

/** Returns the announced site of a brand. Posts link to the article's page on this site. */
export function announcedSite({ sites, announced_site }: BrandSettings): Site | undefined {
  return announced_site === null ? sites[0] : sites.find(({ name }) => name === announced_site);
}

/** Reads the template and the instructions that a brand has set for its articles. */
export async function brandStyle(db: D1Database, tenantId: string, brand: string): Promise<Style> {
  const { template, instructions } = await brandSettings(db, tenantId, brand);
  return { template, instructions };
}

/** Reads a brand of a tenant; undefined without settings and decisions. */
export async function findBrand(db: D1Database, tenantId: string, brand: string): Promise<KnownBrand | undefined> {
  const [row] = await query<Row>(db, sql`SELECT ${COLUMNS} FROM brands WHERE tenant_id = ${tenantId} AND brand = ${brand}`);
  return row && asBrand(row);
}

/** Lists a tenant's brands in the order of their names, beginning after the name `after`. */
export async function listBrands(db: D1Database, tenantId: string, after: string, limit: number): Promise<KnownBrand[]> {
  const rows = await query<Row>(
    db,
    sql`SELECT ${COLUMNS} FROM brands WHERE tenant_id = ${tenantId} AND brand > ${after} ORDER BY brand LIMIT ${limit}`,
  );
  return rows.map(asBrand);
}

/**
 * Replaces all settings of a brand, and audits the change with its reason. The function returns the brand. Errors: `invalid_transition` if
 * the tenant has the maximum number of brands.
 */
export async function putSettings(db: D1Database, by: Operator, brand: string, settings: BrandSettings, reason = ""): Promise<KnownBrand> {
  const { tenantId, actor: who } = by;
  const { max_drafts, rate_per_second, approval, approval_timeout, approval_default, template, instructions, announced_site } = settings;
  const [sites, accounts] = [orDefault(settings, "sites"), orDefault(settings, "accounts")];
  const changed = { detail: { ...settings }, before: { ...(await brandSettings(db, tenantId, brand)) }, after: { ...settings } };
  const action = { id: crypto.randomUUID(), verb: "settings", target: brand, instanceId: null, reason, ...changed } as const;
  const { brands } = await namedBatch(db, {
    brands: sql`
      INSERT INTO brands (tenant_id, ${COLUMNS})
      SELECT ${tenantId}, ${brand}, ${max_drafts}, ${rate_per_second}, ${approval}, ${approval_timeout}, ${approval_default},
        ${template}, ${instructions}, ${sites}, ${accounts}, ${announced_site}, ${sql.now}, ${who}
      WHERE ${hasRoom(tenantId, brand)}
      ON CONFLICT (tenant_id, brand) DO UPDATE SET
        max_drafts = excluded.max_drafts, rate_per_second = excluded.rate_per_second, approval = excluded.approval,
        approval_timeout = excluded.approval_timeout, approval_default = excluded.approval_default,
        template = excluded.template, instructions = excluded.instructions,
        sites = excluded.sites, accounts = excluded.accounts, announced_site = excluded.announced_site,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
      WHERE tenant_id = ${tenantId}
      RETURNING ${COLUMNS}`,
    audited: audit(by, action, false),
  });
  const [put] = brands as unknown as Row[];
  if (!put) throw noRoom(brand, { audited: true });
  return asBrand(put);
}

/** Records a brand without settings, unless the tenant has the maximum number of brands. */
export function noteBrand(tenantId: string, brand: string): Statement {
  return sql`INSERT INTO brands (tenant_id, brand) SELECT ${tenantId}, ${brand} WHERE ${hasRoom(tenantId, brand)} ON CONFLICT DO NOTHING`;
}

type Row = {
  [Name in keyof KnownBrand]: Name extends "brand" ? string : Name extends "sites" | "accounts" ? string | null : KnownBrand[Name] | null;
};

/**
 * Returns a list as JSON. The result is null for a list that equals the default, so that the brand follows later changes of the default.
 */
function orDefault(settings: BrandSettings, list: "sites" | "accounts"): string | null {
  const json = JSON.stringify(settings[list]);
  return json === JSON.stringify(DEFAULT_SETTINGS[list]) ? null : json;
}

function asBrand({ brand, updated_at, updated_by, sites, accounts, ...set }: Row): KnownBrand {
  if (updated_at === null) return { brand, ...DEFAULT_SETTINGS, updated_at, updated_by };
  const style = { template: set.template ?? DEFAULT_STYLE.template, instructions: set.instructions ?? DEFAULT_STYLE.instructions };
  const targets = {
    sites: sites === null ? DEFAULT_SETTINGS.sites : (JSON.parse(sites) as Site[]),
    accounts: accounts === null ? DEFAULT_SETTINGS.accounts : (JSON.parse(accounts) as Account[]),
  };
  return { brand, ...(set as BrandSettings), ...style, ...targets, updated_at, updated_by };
}
