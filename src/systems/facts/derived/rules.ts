import { MillraceError, namedBatch, query, type Statement, sql } from "millrace";
import { audit, type Operator } from "millrace/operate";
import type { Rule } from "../rules.ts";

/** One version of a tenant's rules. */
export interface RulesVersion {
  version: number;
  /** The version applies to outcomes that are recorded from this time until a later version takes effect. */
  effective_at: number;
  rules: Rule[];
  created_at: number;
  who: string;
}

/** A request to add a version of the rules. */
export interface NewRules {
  rules: Rule[];
  /**
   * The version on which the new version is based; 0 for the first version. The new version is refused if another version was added since.
   */
  expected_version: number;
  /**
   * The time from which the version is in effect, in milliseconds. By default this is in one minute. The first version applies to outcomes
   * of any time.
   */
  effective_at?: number | undefined;
}

/** The default time until a new version takes effect. */
const USUAL_LEAD_MS = 60_000;
/**
 * The shortest time until a version takes effect. An outcome in transit must be decided by the same version at every delivery, even if
 * clocks differ.
 */
const LEAST_LEAD_MS = 10_000;
/** Maximum number of versions that are read at once. Outcomes that are not very late need no older version. */
const RECENT = 5;
/** Maximum number of versions of one tenant. The limit exists because versions are never removed, and each version may have 64 KiB. */
const MAX_VERSIONS = 1000;

/**
 * Adds a version of the rules, and writes an audit row. A repeated request returns the version that the first request created. Throws
 * `invalid_payload` for an invalid time. Throws `invalid_transition` if another version was added first, or the tenant has the maximum
 * number of versions.
 */
export async function addRules(db: D1Database, by: Operator, asked: NewRules): Promise<RulesVersion> {
  const { tenantId, actor: who } = by;
  if (asked.expected_version === 0 && asked.effective_at !== undefined) {
    const message = "must be left out: the first version is in effect from the beginning";
    throw new MillraceError("invalid_payload", `The field effective_at ${message}.`, { issues: [{ path: "effective_at", message }] });
  }
  const detail = { version: asked.expected_version + 1, rules: asked.rules.length };
  const changed = { before: { version: asked.expected_version }, after: detail };
  const target = "qualification-rules";
  const action = { id: crypto.randomUUID(), verb: "rules", target, instanceId: null, reason: "", detail, ...changed } as const;
  const { inserted } = await namedBatch(db, {
    inserted: insertVersion(tenantId, who, asked),
    audited: audit(by, action, false),
  });
  const [added] = (inserted as unknown as StoredVersion[]).map(asVersion);
  if (added) return added;
  const [latest] = await read(db, newestVersions(tenantId, 1));
  if (latest && isAnswerTo(latest, who, asked)) return latest;
  const version = latest?.version ?? 0;
  if (version >= MAX_VERSIONS) {
    throw new MillraceError(
      "invalid_transition",
      `A tenant has at most ${MAX_VERSIONS} versions of its rules: the newest stays in effect.`,
      { audited: true },
    );
  }
  if (version === asked.expected_version) {
    const message = `must be at least ${LEAST_LEAD_MS / 1000} seconds ahead`;
    throw new MillraceError("invalid_payload", `The rules would be in effect too soon: effective_at ${message}.`, {
      issues: [{ path: "effective_at", message }],
      audited: true,
    });
  }
  throw new MillraceError(
    "invalid_transition",
    `The rules are at version ${version}, not ${asked.expected_version}. Read them, make your change there, and send it with expected_version ${version}.`,
    { from: `version ${version}`, to: `version ${asked.expected_version + 1}`, audited: true },
  );
}

/** Returns the newest version; undefined if the tenant has no rules. */
export async function latestRules(db: D1Database, tenantId: string): Promise<RulesVersion | undefined> {
  return (await read(db, newestVersions(tenantId, 1)))[0];
}

export async function rulesOfVersion(db: D1Database, tenantId: string, version: number): Promise<RulesVersion | undefined> {
  return (await read(db, oneVersion(tenantId, version)))[0];
}

/** Returns the versions before a given version, newest first. */
export async function versionsBefore(db: D1Database, tenantId: string, version: number, limit: number): Promise<RulesVersion[]> {
  return read(db, olderVersions(tenantId, version, limit));
}

/** Returns a tenant's newest versions, newest first. A consumer reads these versions once for all messages of a batch. */
export function recentRules(db: D1Database, tenantId: string): Promise<RulesVersion[]> {
  return read(db, newestVersions(tenantId, RECENT));
}

/**
 * Returns the version of the rules for a recording time: the newest version that was in effect at that time. A new version never takes
 * effect at a past time, so the result for a past time never changes.
 */
export async function rulesAt(
  db: D1Database,
  tenantId: string,
  at: number,
  recent: readonly RulesVersion[],
): Promise<RulesVersion | undefined> {
  const counted = recent.find(({ effective_at }) => effective_at <= at);
  if (counted || recent.length < RECENT) return counted;
  return (await read(db, versionInEffect(tenantId, at)))[0];
}

const insertVersion = (tenantId: string, who: string, { rules, expected_version: expected, effective_at }: NewRules): Statement => {
  const chosen = effective_at ?? null;
  return sql`
  INSERT INTO qualification_rules (tenant_id, version, effective_at, rules, created_at, who)
  SELECT ${tenantId}, ${expected} + 1, iif(${expected} = 0, 0, coalesce(${chosen}, ${sql.now} + ${USUAL_LEAD_MS})),
    ${JSON.stringify(rules)}, ${sql.now}, ${who}
  WHERE ${expected} = coalesce((SELECT max(version) FROM qualification_rules WHERE tenant_id = ${tenantId}), 0)
    AND ${expected} < ${MAX_VERSIONS} AND (${chosen} IS NULL OR ${chosen} >= ${sql.now} + ${LEAST_LEAD_MS})
  ON CONFLICT DO NOTHING
  RETURNING version, effective_at, rules, created_at, who`;
};

const newestVersions = (tenantId: string, limit: number): Statement => sql`
  SELECT version, effective_at, rules, created_at, who FROM qualification_rules
  WHERE tenant_id = ${tenantId} ORDER BY version DESC LIMIT ${limit}`;

const olderVersions = (tenantId: string, version: number, limit: number): Statement => sql`
  SELECT version, effective_at, rules, created_at, who FROM qualification_rules
  WHERE tenant_id = ${tenantId} AND version < ${version} ORDER BY version DESC LIMIT ${limit}`;

const oneVersion = (tenantId: string, version: number): Statement => sql`
  SELECT version, effective_at, rules, created_at, who FROM qualification_rules
  WHERE tenant_id = ${tenantId} AND version = ${version}`;

const versionInEffect = (tenantId: string, at: number): Statement => sql`
  SELECT version, effective_at, rules, created_at, who FROM qualification_rules
  WHERE tenant_id = ${tenantId} AND effective_at <= ${at} ORDER BY version DESC LIMIT 1`;

async function read(db: D1Database, statement: Statement): Promise<RulesVersion[]> {
  return (await query<StoredVersion>(db, statement)).map(asVersion);
}

type StoredVersion = Omit<RulesVersion, "rules"> & { rules: string };

function asVersion(row: StoredVersion): RulesVersion {
  return { ...row, rules: JSON.parse(row.rules) as Rule[] };
}

/** True if the same request created this version. */
function isAnswerTo(latest: RulesVersion, who: string, { rules, expected_version, effective_at }: NewRules): boolean {
  return (
    latest.version === expected_version + 1 &&
    latest.who === who &&
    JSON.stringify(latest.rules) === JSON.stringify(rules) &&
    (effective_at === undefined || latest.effective_at === effective_at)
  );
}
