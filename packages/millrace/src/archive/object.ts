import { Buffer } from "node:buffer";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { within } from "../contract/within.ts";
import type { Row } from "../store/d1/retry.ts";

/**
 * The rows of an archived instance, by table. Each table of an instance has a list, which may be empty. The rows have the columns of the
 * tables at the time of the move.
 */
export type ArchivedRows = Readonly<Record<ArchivedTable, readonly Row[]>>;

/** The tables with rows that move with an instance. `millrace_signals`: the events that the instance has received. */
export const ARCHIVED_TABLES = [
  "millrace_instances",
  "millrace_inbox",
  "millrace_waits",
  "millrace_approvals",
  "millrace_signals",
] as const;
export type ArchivedTable = (typeof ARCHIVED_TABLES)[number];

/** An archived instance in its object: the id and the compressed rows. */
export interface Member {
  readonly id: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Maximum number of instances in one object. The limit bounds the index, which a read of one instance loads. */
export const MOST_MEMBERS = 250;

const COUNT_BYTES = 4;
/** An entry of the index: 16 bytes of the instance's id, and the length of its compressed rows. */
const ENTRY_BYTES = 20;

/** The folder of all objects, with a folder for each tenant. */
export const ARCHIVE_FOLDER = "runs/";

export function folderOf(tenantId: string): string {
  return `${ARCHIVE_FOLDER}${tenantId}/`;
}

/** The name of an object. The number is the time of the move in milliseconds since 1970. */
export function objectName(tenantId: string, object: number | string): string {
  return `${folderOf(tenantId)}${object}`;
}

/** The time of the move in milliseconds, from the name of an object. */
export function movedAt(name: string): number {
  return Number(name.split("/").at(-1));
}

export async function memberOf(id: string, rows: ArchivedRows): Promise<Member> {
  return { id, bytes: await through(new CompressionStream("gzip"), new Uint8Array(new TextEncoder().encode(JSON.stringify(rows)))) };
}

export async function rowsOf({ bytes }: Pick<Member, "bytes">): Promise<ArchivedRows> {
  return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("gzip"), bytes))) as ArchivedRows;
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** The bytes of an object: the count of instances, the index, and the compressed rows of each instance. */
function packed(members: readonly Member[]): Uint8Array<ArrayBuffer> {
  let at = COUNT_BYTES + members.length * ENTRY_BYTES;
  const all = new Uint8Array(at + members.reduce((sum, { bytes }) => sum + bytes.length, 0));
  const view = new DataView(all.buffer);
  view.setUint32(0, members.length);
  for (const [index, { id, bytes }] of members.entries()) {
    const entry = COUNT_BYTES + index * ENTRY_BYTES;
    all.set(Buffer.from(id, "hex"), entry);
    view.setUint32(entry + 16, bytes.length);
    all.set(bytes, at);
    at += bytes.length;
  }
  return all;
}

/** The index of an object: each instance's id, and the position of its compressed rows. */
function indexIn(bytes: Uint8Array<ArrayBuffer>): { id: string; offset: number; length: number }[] {
  const view = new DataView(bytes.buffer);
  const count = view.getUint32(0);
  let offset = COUNT_BYTES + count * ENTRY_BYTES;
  return Array.from({ length: count }, (_, index) => {
    const entry = COUNT_BYTES + index * ENTRY_BYTES;
    const one = { id: Buffer.from(bytes.subarray(entry, entry + 16)).toString("hex"), offset, length: view.getUint32(entry + 16) };
    offset += one.length;
    return one;
  });
}

/**
 * Writes an object and verifies its size and its checksum in R2. With an `etag`, replaces only that version of the object, and returns
 * false if the object has changed since. Errors: `unavailable` if R2 fails, or has an object of this name.
 */
export async function putMembers(bucket: R2Bucket, name: string, members: readonly Member[], etag?: string): Promise<boolean> {
  const bytes = packed(members);
  const sha256 = await crypto.subtle.digest("SHA-256", bytes);
  if (etag === undefined && (await called(`read ${name}`, () => bucket.head(name))) !== null) throw failed(`write ${name}, which exists`);
  const done = await called(`write ${name}`, () =>
    bucket.put(name, bytes, { sha256, ...(etag !== undefined && { onlyIf: { etagMatches: etag } }) }),
  );
  if (done === null) return false;
  const stored = await called(`read ${name}`, () => bucket.head(name));
  const isSame = stored?.size === bytes.length && stored.checksums.toJSON().sha256 === Buffer.from(sha256).toString("hex");
  if (!isSame) throw failed(`store ${name} unchanged`);
  return true;
}

/** All instances of an object, with the object's version; undefined if the object was removed. Errors: `unavailable` if R2 fails. */
export async function membersOf(bucket: R2Bucket, name: string): Promise<{ etag: string; members: Member[] } | undefined> {
  return called(`read ${name}`, async () => {
    const object = await bucket.get(name);
    if (object === null) return undefined;
    const bytes = await bytesOf(object);
    const members = indexIn(bytes).map(({ id, offset, length }) => ({ id, bytes: bytes.slice(offset, offset + length) }));
    return { etag: object.etag, members };
  });
}

/** Maximum number of tries of a read. The object may change between the two parts of a read. */
const READS = 3;

/**
 * The rows of one instance; undefined if the object does not contain it. Reads the index and the part of the instance alone. Errors:
 * `unavailable` if R2 fails.
 */
export async function rowsIn(bucket: R2Bucket, name: string, id: string): Promise<ArchivedRows | undefined> {
  for (let read = 1; read <= READS; read++) {
    const found = await called(`read ${name}`, () => readRows(bucket, name, id));
    if (found !== "changed") return found;
  }
  throw failed(`read ${name} between two changes`);
}

async function readRows(bucket: R2Bucket, name: string, id: string): Promise<ArchivedRows | undefined | "changed"> {
  const index = await bucket.get(name, { range: { offset: 0, length: COUNT_BYTES + MOST_MEMBERS * ENTRY_BYTES } });
  const own = index && indexIn(await bytesOf(index)).find((one) => one.id === id);
  if (!own) return undefined;
  const part = await bucket.get(name, { range: { offset: own.offset, length: own.length }, onlyIf: { etagMatches: index.etag } });
  if (part === null) return undefined;
  return "body" in part ? rowsOf({ bytes: await bytesOf(part) }) : "changed";
}

async function bytesOf(object: R2ObjectBody): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await object.arrayBuffer());
}

/** Calls R2, and reads its answer. Errors: `unavailable`, also for an answer that breaks off or is damaged. */
async function called<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await within(call());
  } catch (cause) {
    throw failed(what, cause);
  }
}

function failed(what: string, cause?: unknown): MillraceError {
  const why = cause === undefined ? "" : `: ${messageOf(cause)}`;
  return new MillraceError("unavailable", `R2 could not ${what}${why}. Try again in a few seconds.`, { cause, delayMs: 5000 });
}
