import { texts } from "millrace";
import { filesFolder } from "./file.ts";
import { MAX_KEY_BYTES } from "./limits.ts";

/** The prefix of a value that names an object of the bucket. */
const SCHEME = "r2://";
/** Maximum number of objects that are looked up at once. */
const AT_ONCE = 50;

/** The values of a row that may be references to files. The key of each value is the location that an error names. */
type Values = Readonly<Record<string, unknown>>;

/**
 * Finds rows that refer to a missing file, or to a file outside the tenant's folder. The result is each such row's problem by the row's
 * index. Binary data stays in the bucket, and a row contains a reference such as `r2://files/{tenant}/…`.
 */
export async function danglingAmong(bucket: R2Bucket, tenantId: string, rows: readonly Values[]): Promise<Map<number, string>> {
  const folder = filesFolder(tenantId);
  const named = rows.flatMap((values, index) =>
    Object.entries(values).flatMap(([name, value]) =>
      typeof value === "string" && value.startsWith(SCHEME) ? [{ index, name, key: value.slice(SCHEME.length) }] : [],
    ),
  );
  const keys = [...new Set(named.map(({ key }) => key))].filter((key) => key.startsWith(folder) && texts.byteLength(key) <= MAX_KEY_BYTES);
  const found = new Set<string>();
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const looked = keys.slice(from, from + AT_ONCE).map(async (key) => (await bucket.head(key)) && found.add(key));
    await Promise.all(looked);
  }
  return new Map(
    named
      .filter(({ key }) => !found.has(key))
      .map(({ index, name, key }) => [
        index,
        `${name}: ${key.startsWith(folder) ? "names a file that is missing" : `is not below ${SCHEME}${folder}`}`,
      ]),
  );
}
