import { MillraceError } from "../contract/errors.ts";
import { objectNameOf, partsOf } from "../contract/object-name.ts";

/** Which lane: each has an object of its own. */
export interface LaneName {
  lane: string;
  /** Whose it is; null where lanes belong to nobody in particular. */
  tenant: string | null;
  key: string;
}

/** Longest key of a lane, in characters. */
const MAX_LANE_KEY_CHARACTERS = 500;

/** The name of a lane's object. */
export function objectName({ lane, tenant, key }: LaneName): string {
  return objectNameOf([lane, tenant, key]);
}

/** The reverse of `objectName`; undefined for anything it did not write. */
export function parseObjectName(name: string | undefined): LaneName | undefined {
  const [lane, tenant, key] = partsOf(name, 3) ?? [];
  return typeof lane === "string" && tenant !== undefined && typeof key === "string" ? { lane, tenant, key } : undefined;
}

/** The name, if its key can be one. Errors: `invalid_payload`. */
export function checkedName(name: LaneName): LaneName {
  const { lane, key, tenant } = name;
  const wrong = wrongIn(key) ?? (tenant === null ? undefined : wrongIn(tenant));
  if (wrong === undefined) return name;
  throw new MillraceError("invalid_payload", `A key of the lane "${lane}" ${wrong}.`, { issues: [{ path: "key", message: wrong }] });
}

function wrongIn(key: unknown): string | undefined {
  if (typeof key !== "string") return "must be a text";
  if (key.length < 1 || key.length > MAX_LANE_KEY_CHARACTERS)
    return `must have 1 to ${MAX_LANE_KEY_CHARACTERS} characters; this one has ${key.length}: send a hash of it, or an id`;
  return key.isWellFormed() ? undefined : "holds half of a surrogate pair: send well-formed Unicode";
}
