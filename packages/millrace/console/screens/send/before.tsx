import { type Answer, quoted, type Result } from "../../data/api.ts";
import type { Problem } from "../../data/problem.ts";
import { jsonText } from "../../data/written.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Issues, Pairs, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";

export type Checked = Answer<"/v1/catalog/check", "$post">;

export interface Message {
  kind: "command" | "event";
  type: string;
  payload: unknown;
  /** The other fields of the request, with the key of the message. */
  options: Readonly<Record<string, unknown>>;
}

export const keyIn = ({ idempotency_key: key = "" }: Message["options"]) => String(key).trim();

const OUTCOMES = {
  new: ["blue", "The key is free: this starts new work."],
  repeat: ["green", "This message was sent before. Sending it again starts nothing, and the answer is the same."],
  reused: ["red", "Another message has this key, so this one would be refused. Change the payload or the key."],
  refused: ["red", "The message would be refused."],
  incomplete: ["quiet", "The message cannot be sent yet:"],
  "needs a key": ["amber", "An event needs an idempotency key, so that a repeat is recognized."],
} as const;

function outcomeOf(kind: Message["kind"], { outcome, key }: Checked, isBegun: boolean): keyof typeof OUTCOMES {
  if (outcome === "refused" && !isBegun) return "incomplete";
  return kind === "event" && outcome === "new" && key === null ? "needs a key" : outcome;
}

/** Shows the key and the subject of a message, and the result of the check. `isBegun` is true if the user has filled in a field. */
export function Before({ kind, found, isBegun }: { kind: Message["kind"]; found: Result<Checked> | undefined; isBegun: boolean }) {
  if (found && !found.ok) return <ProblemNote problem={found.problem} />;
  if (!found) return <p class="quiet">Checking the message …</p>;
  const { key, subject, holder, refused } = found.data;
  const outcome = outcomeOf(kind, found.data, isBegun);
  const [tone, means] = OUTCOMES[outcome];
  return (
    <>
      <p class="send-outcome">
        <Status word={outcome} tone={tone} />
        <span>{means}</span>
      </p>
      {holder && (
        <p>
          {holder.status === "stated" || holder.status === "pruned" ? (
            `The key is held by ${holder.id} (${holder.status}).`
          ) : (
            <>
              The key is held by <Link to={hrefOf("instances", holder.id)}>this instance</Link>, which is{" "}
              {holder.status.replaceAll("_", " ")}.
            </>
          )}
        </p>
      )}
      {refused &&
        (refused.issues?.length ? (
          <Issues of={refused.issues} />
        ) : (
          <ul>
            <li>{refused.detail}</li>
          </ul>
        ))}
      {subject !== null && <Pairs of={{ Key: key === null ? "none yet" : <code>{key}</code>, Subject: <bdi>{subject}</bdi> }} />}
    </>
  );
}

interface Request {
  path: "/v1/commands" | "/v1/events" | "/v1/commands/batch" | "/v1/events/batch";
  key?: string;
  body: object;
}

/** The request that sends a message. A key that a header cannot contain is sent in the body of a batch. */
export function requestOf({ kind, type, payload, options }: Message): Request {
  const path = kind === "command" ? "/v1/commands" : "/v1/events";
  const key = keyIn(options);
  const item = { type, ...options, idempotency_key: undefined, payload };
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
