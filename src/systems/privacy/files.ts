import { parse } from "csv-parse/sync";
import { instances, type Rewritten } from "millrace/operate";
import { type Batch, findBatch } from "../batches/batch.ts";
import { fromCell, toCsv } from "../batches/csv.ts";
import { hasEnded } from "../batches/follow.ts";
import { renamedWithoutPerson, textWithoutPerson } from "../contacts/properties.ts";
import type { Traces } from "../contacts/traces.ts";
import { linesOf, putArchive } from "../facts/archive.ts";

/** The folders of a tenant in the bucket. Files that a tenant has stored under `files/` are the tenant's own responsibility. */
export const FOLDERS = ["payloads", "outputs", "batches", "archive"] as const;

const OBJECTS = 50;
/** An object up to this size is read at once. A larger upload is read in pieces of this size. */
const PIECE_BYTES = 4 * 1024 * 1024;
/** Overlap of two pieces of an upload. The overlap is longer than any searched text. */
const OVERLAP_BYTES = 4096;

interface Search {
  env: Cloudflare.Env;
  tenantId: string;
  traces: Traces;
  apply: boolean;
}

/** The result for a searched object: changed or deleted, to be changed later, or without mentions of the person. */
type Fate = "changed" | "waiting" | "nothing";

/**
 * Searches one slice of a folder for a person. Texts that mention the person are rewritten. Uploads of ended batches are deleted if they
 * mention the person.
 */
export async function rewriteFiles(search: Search, folder: (typeof FOLDERS)[number], from: string | null): Promise<Rewritten> {
  const { env, tenantId } = search;
  const listed = await env.PAYLOADS.list({ prefix: `${folder}/${tenantId}/`, limit: OBJECTS, ...(from !== null && { startAfter: from }) });
  const counts = { changed: 0, waiting: 0, nothing: 0 };
  for (const { key, size } of listed.objects) {
    if (folder === "archive") {
      counts[await ofArchive(search, key)]++;
      continue;
    }
    if (!(await says(search, key, size))) continue;
    counts[await (folder === "batches" ? ofBatch(search, key) : ofEngine(search, key))]++;
  }
  return { changed: counts.changed, waiting: counts.waiting, next: listed.truncated ? (listed.objects.at(-1)?.key ?? null) : null };
}

/** True if an object may mention the person. An upload is searched in pieces, because an upload may have any size. */
async function says({ env, traces }: Search, key: string, size: number): Promise<boolean> {
  const isUpload = key.startsWith("batches/") && key.split("/")[3] === "upload";
  for (let offset = 0; offset < size; offset += PIECE_BYTES - OVERLAP_BYTES) {
    const object = await env.PAYLOADS.get(key, { range: { offset, length: Math.min(PIECE_BYTES, size - offset) } });
    const text = (await object?.text()) ?? "";
    if (isUpload ? traces.isSaidIn(text) : traces.areIn(text)) return true;
  }
  return false;
}

/** Rewrites a stored payload or output. Outputs of running instances remain unchanged, because the instances use these outputs. */
async function ofEngine(search: Search, key: string): Promise<Fate> {
  const { env, tenantId, traces, apply } = search;
  const text = await textOf(env, key);
  const rewritten = traces.rewrite("payload", text);
  if (rewritten === text) return "nothing";
  if (key.startsWith("outputs/") && (await instances.isUnderWay(env.DB, tenantId, key.split("/")[2] ?? ""))) return "waiting";
  if (apply) await env.PAYLOADS.put(key, rewritten, { httpMetadata: { contentType: "application/json" } });
  return "changed";
}

/** Rewrites archived facts with pseudonyms, in the same way as the facts of a ledger. */
async function ofArchive({ env: { PAYLOADS }, traces, apply }: Search, key: string): Promise<Fate> {
  const object = await PAYLOADS.get(key);
  if (!object) return "nothing";
  const entity = object.customMetadata?.entity ?? "";
  const lines = await linesOf(object);
  const rewritten = lines.map((line) => traces.rewrite("body", line));
  const said = traces.rewrite("entity", entity);
  if (said === entity && rewritten.every((line, index) => line === lines[index])) return "nothing";
  if (apply) await putArchive(PAYLOADS, key, rewritten, { entity: said });
  return "changed";
}

/** Rewrites a part of a batch's result, or the batch's refused or failed rows. An upload is deleted and not rewritten. */
async function ofBatch({ env, tenantId, traces, apply }: Search, key: string): Promise<Fate> {
  const [, , batchId = "", what] = key.split("/");
  const batch = await findBatch(env.DB, tenantId, batchId);
  if (what === "upload" || !batch) {
    // An errored batch reads its upload again after an operator's retry, so the upload is kept.
    const isRead = batch && (!hasEnded(batch) || batch.state === "errored");
    if (!isRead && apply) await env.PAYLOADS.delete(key);
    return isRead ? "waiting" : "changed";
  }
  const text = await textOf(env, key);
  if (what === "rows") return ofFailedRows({ env, traces, apply }, key, text, batch);
  const rewritten = what === "errors" ? lines(text, (line) => traces.rewrite("line", line)) : resultWithout(text, batch, traces);
  if (rewritten === text) return "nothing";
  if (!hasEnded(batch)) return "waiting";
  if (apply) await env.PAYLOADS.put(key, rewritten);
  return "changed";
}

/** Removes rows that mention the person from the failed rows of a batch, because a retry would import these rows. */
async function ofFailedRows({ env, traces, apply }: Omit<Search, "tenantId">, key: string, text: string, batch: Batch): Promise<Fate> {
  if (!hasEnded(batch)) return "waiting";
  if (apply)
    await env.PAYLOADS.put(
      key,
      lines(text, (line) => (traces.areIn(line) ? "" : line)),
    );
  return "changed";
}

/**
 * Returns a part of a batch's result without mentions of the person. The person's own rows are removed from an export of contacts. All
 * other mentions are rewritten.
 */
function resultWithout(text: string, { format, dataset, operation, formulas }: Batch, traces: Traces): string {
  const drops = dataset === "contacts" && operation === "export";
  if (format === "jsonl") return lines(text, (line) => (drops ? contactLine(line, traces) : traces.rewrite("line", line)));
  const table: string[][] = parse(text, { relax_column_count: true });
  const rows = table.map((cells) => cells.map((cell) => fromCell(cell, formulas)));
  const left = drops
    ? rows.filter(([id = ""]) => !traces.isTheirs(id)).map((cells) => contactCells(cells, traces))
    : rows.map((cells) => (operation === "export" ? factCells(cells, traces) : findingCells(cells, traces)));
  const same = left.length === rows.length && left.every((cells, row) => cells.every((cell, at) => cell === rows[row]?.[at]));
  return same ? text : toCsv(left, formulas);
}

/** Returns the line of another contact without mentions of the person, and an empty text for the person's own line. */
function contactLine(line: string, traces: Traces): string {
  const { contact_id, email, properties = {}, ...more } = JSON.parse(line) as Record<string, unknown> & { properties?: object };
  if (traces.isTheirs(contact_id)) return "";
  const rewritten = renamedWithoutPerson(properties as Record<string, unknown>, traces);
  return rewritten === properties ? line : JSON.stringify({ contact_id, email, ...more, properties: rewritten });
}

/** Returns the cells of another contact's CSV row without mentions of the person. The fourth cell contains the contact's properties. */
function contactCells([id = "", email = "", name = "", properties = "", ...more]: string[], traces: Traces): string[] {
  return [id, email, name, properties.startsWith("{") ? textWithoutPerson(properties, traces, renamedWithoutPerson) : properties, ...more];
}

/**
 * Returns the rewritten cells of a fact: name, entity, type, subtype, time and payload. Entity, type and time remain unchanged, as in the
 * fact's ledger.
 */
function factCells(cells: string[], traces: Traces): string[] {
  return cells.map((cell, at) => {
    if (at === 0) return traces.rewrite("fact_id", cell);
    if (at === 5) return traces.rewritePayload(cells[2], cell);
    return at === 3 ? traces.rewrite("cell", cell) : cell;
  });
}

/** Returns the rewritten cells of a finding. The second cell contains a contact's id or a fact's name. */
function findingCells(cells: string[], traces: Traces): string[] {
  return cells.map((cell, at) => traces.rewrite(at === 1 ? "key" : "cell", cell));
}

function lines(text: string, change: (line: string) => string): string {
  const changed = text.split("\n").map((line) => (line === "" ? null : change(line)));
  return changed.flatMap((line) => (line ? [`${line}\n`] : [])).join("");
}

async function textOf({ PAYLOADS }: Cloudflare.Env, key: string): Promise<string> {
  return (await (await PAYLOADS.get(key))?.text()) ?? "";
}
