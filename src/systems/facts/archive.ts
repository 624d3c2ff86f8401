import { ids } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";

/** Number of digits of a position in a file name. With a fixed number of digits, the order of the names is the order of the positions. */
const DIGITS = 16;

function folderOf(tenantId: string, entity: string): string {
  return `archive/${tenantId}/${ids.digest(entity)}/`;
}

const placed = (sequence: number) => String(sequence).padStart(DIGITS, "0");

/**
 * Archives facts as gzipped JSON Lines, before the facts' ledger deletes them. The file's name contains the last position and then the
 * first position, so that a listing after a position begins with the right file. A repeated write overwrites the file with the same
 * content. Returns the file's name.
 */
export async function archiveFacts(bucket: R2Bucket, bodies: readonly string[]): Promise<string | undefined> {
  const [first, last] = [bodies.at(0), bodies.at(-1)].map((body) => JSON.parse(body ?? "null") as RecordedFact);
  if (!first || !last) return undefined;
  const name = `${folderOf(first.tenant_id, first.entity)}${placed(last.sequence)}-${placed(first.sequence)}.jsonl.gz`;
  await putArchive(bucket, name, bodies, { entity: first.entity });
  return name;
}

/** Writes or overwrites one file of the archive. */
export async function putArchive(bucket: R2Bucket, name: string, bodies: readonly string[], said: Record<string, string>): Promise<void> {
  const lines = new Blob(bodies.map((body) => `${body}\n`)).stream();
  const packed = await new Response(lines.pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
  await bucket.put(name, packed, { httpMetadata: { contentType: "application/gzip" }, customMetadata: said });
}

/** The lines of one file of the archive. */
export async function linesOf({ body }: R2ObjectBody): Promise<string[]> {
  const text = await new Response(body.pipeThrough(new DecompressionStream("gzip"))).text();
  return text.split("\n").filter(Boolean);
}

/** Returns a page of a ledger's archived facts, oldest first, and the position of the next page (null on the last page). */
export async function readArchive(
  bucket: R2Bucket,
  tenantId: string,
  entity: string,
  { after, limit }: { after: number; limit: number },
): Promise<{ facts: RecordedFact[]; next: number | null }> {
  const prefix = folderOf(tenantId, entity);
  // The listing skips every file whose last position is `after` or smaller, and begins with the first file that contains later facts.
  const { objects } = await bucket.list({ prefix, startAfter: `${prefix}${placed(after)}~`, limit: 2 });
  const [found, more] = objects;
  const object = found && (await bucket.get(found.key));
  if (!object) return { facts: [], next: null };
  const kept = (await linesOf(object)).map((line) => JSON.parse(line) as RecordedFact);
  const facts = kept.filter(({ sequence }) => sequence > after);
  const page = facts.slice(0, limit);
  const isLast = page.length === facts.length && more === undefined;
  return { facts: page, next: isLast ? null : (page.at(-1)?.sequence ?? null) };
}
