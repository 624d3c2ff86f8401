import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { type Answer, type Caller, fresh, type Json, until } from "../../api/client.ts";

/** Requests a batch with a file as its body. */
export function upload(
  caller: Caller,
  file: string | Uint8Array,
  {
    type = "text/csv",
    operation = "import",
    dataset = "contacts",
    id = fresh("b"),
    more = "",
    headers = {} as Record<string, string>,
  } = {},
): Promise<Answer> {
  const bytes = typeof file === "string" ? new TextEncoder().encode(file) : file;
  const query = new URLSearchParams({ operation, dataset, batch_id: id });
  return caller.call(
    "POST",
    `/v1/batches?${query}${more}`,
    undefined,
    { "content-type": type, "content-length": String(bytes.length), ...headers },
    bytes,
  );
}

/** Waits until a batch has one of these states. */
export async function batchIn(caller: Caller, id: string, ...states: string[]): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/batches/${id}`),
    ({ body }) => states.includes(body.state),
  );
  expect(states, JSON.stringify(body)).toContain(body.state);
  return body;
}

/** Uploads a file and waits until its batch is complete. */
export async function completed(caller: Caller, file: string | Uint8Array, options: Parameters<typeof upload>[2] = {}): Promise<Json> {
  const { status, body } = await upload(caller, file, options);
  expect(status, JSON.stringify(body)).toBe(202);
  return batchIn(caller, body.batch_id, "complete");
}

export async function contactsOf(tenantId: string): Promise<Json[]> {
  const { results } = await env.DB.prepare("SELECT * FROM contacts WHERE tenant_id = ?1 ORDER BY contact_id").bind(tenantId).all();
  return results.map((row: Json) => ({ ...row, properties: JSON.parse(row.properties) }));
}

/** The rows that a batch reports as refused. */
export async function problemsOf(caller: Caller, id: string): Promise<Json[]> {
  const { body } = await caller.get(`/v1/batches/${id}/errors?format=jsonl`);
  return String(body)
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** A file of contacts, each with its own row. */
export function contactsCsv(count: number, prefix = "c"): string {
  const rows = Array.from({ length: count }, (_, index) => `${prefix}${index},p${index}@example.com,"Person, ${index}",gold`);
  return `contact_id,email,name,plan\n${rows.join("\n")}\n`;
}
