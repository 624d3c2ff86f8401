import { quoted, type Result } from "../../data/api.ts";
import type { Problem } from "../../data/problem.ts";
import { jsonText } from "../../data/written.ts";
import type { Message } from "./before.tsx";

export interface Request {
  path: "/v1/commands" | "/v1/events" | "/v1/commands/batch" | "/v1/events/batch";
  key?: string;
  body: object;
}

/**
 * The request that sends a message. If the key of the message is invalid in a header, the message is sent in a batch, whose body can
 * contain the key.
 */
export function requestOf({ kind, type, payload, key, job }: Message & { job: string }): Request {
  const path = kind === "command" ? "/v1/commands" : "/v1/events";
  const item = { type, ...(job && { correlation_id: job }), payload };
  if (/^[ -~]*$/.test(key)) return { path, ...(key && { key }), body: item };
  return { path: `${path}/batch`, body: { [`${kind}s`]: [{ ...item, idempotency_key: key }] } };
}

interface Taken {
  instance_id?: string;
  correlation_id: string;
}

export function answerIn(result: Result<unknown>): Result<Taken> {
  if (!result.ok) return result;
  const { results: [only] = [] } = result.data as { results?: [{ problem?: Problem } & Taken] };
  if (only?.problem) return { ok: false, problem: only.problem };
  return { ok: true, data: only ?? (result.data as Taken) };
}

export function curlOf({ path, key, body }: Request): string {
  return [
    `curl ${inQuotes(location.origin + path)}`,
    `-H "Authorization: Bearer $TOKEN"`,
    "-H 'Content-Type: application/json'",
    ...(key === undefined ? [] : [`-H ${inQuotes(`Idempotency-Key: ${quoted(key)}`)}`]),
    `--data-raw ${inQuotes(jsonText(body))}`,
  ].join(" \\\n  ");
}

function inQuotes(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
