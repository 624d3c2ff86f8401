import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";
import { characterCount } from "../contract/text.ts";

/** Identifies one lane. Each lane has its own object. */
export interface LaneName {
  lane: string;
  /** The tenant; null for lanes without tenants. */
  tenant: string | null;
  key: string;
}

/** Maximum length of a lane's key, in characters. */
const MAX_LANE_KEY_CHARACTERS = 500;

export function objectName({ lane, tenant, key }: LaneName): string {
  return objectNameOf([lane, tenant, key]);
}

/** Parses the name that `objectName` made; undefined for a name in another format. */
export function parseObjectName(name: string | undefined): LaneName | undefined {
  const [lane, tenant, key] = partsOf(name, 3) ?? [];
  return typeof lane === "string" && tenant !== undefined && typeof key === "string" ? { lane, tenant, key } : undefined;
}

/**
 * Returns the name of the lane if its key and its tenant are valid. Errors: `invalid_payload`, whose message says whether the key or the
 * tenant is invalid.
 */
export function checkedName(name: LaneName): LaneName {
  assertPart(name, "key");
  if (name.tenant !== null) assertPart(name, "tenant");
  return name;
}

function assertPart(name: LaneName, path: "key" | "tenant"): void {
  const message = wrongIn(name[path]);
  if (message === undefined) return;
  throw new MillraceError("invalid_payload", `The ${path} of a lane "${name.lane}" ${message}.`, { issues: [{ path, message }] });
}

function wrongIn(part: unknown): string | undefined {
  if (typeof part !== "string") return "must be a text";
  const count = characterCount(part);
  if (count < 1 || count > MAX_LANE_KEY_CHARACTERS)
    return `must have 1 to ${MAX_LANE_KEY_CHARACTERS} characters; this one has ${count}: send a hash of it, or an id`;
  return part.isWellFormed() ? undefined : "contains half of a surrogate pair: send well-formed Unicode";
}
