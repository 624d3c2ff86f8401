import { useState } from "preact/hooks";
import { type Answer, post, quoted, type Result } from "../../data/api.ts";
import type { Problem } from "../../data/problem.ts";
import { jsonText, readJson, Written, writtenJson, wrongIn } from "../../data/written.ts";
import { hrefOf, Link, setFilters } from "../../frame/router.tsx";
import { usePlan } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { Pairs, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Fields, type Told } from "./form.tsx";
import { controlOf, type Schema } from "./schema.ts";

export type Checked = Answer<"/v1/catalog/check", "$post">;

export interface Message {
  kind: "command" | "event";
  type: string;
  payload: unknown;
  key: string;
}

export function useCheck({ kind, type, payload, key }: Message, mayAsk: boolean): Result<Checked> | undefined {
  const body = { kind, type, payload, ...(key && { idempotency_key: key }) };
  const isSendable = mayAsk && wrongIn(payload, "").length === 0;
  const { plan } = usePlan(() => post("/v1/catalog/check", { body }), jsonText(body), isSendable);
  return isSendable ? plan : undefined;
}

export function issuesOf(found: Result<Checked> | undefined): NonNullable<Problem["issues"]> {
  return (found?.ok ? found.data.refused?.issues : found?.problem.issues) ?? [];
}

const OUTCOMES = {
  new: ["blue", "The key is free: this starts new work."],
  repeat: ["green", "This message was sent before. Sending it again starts nothing, and the answer is the same."],
  reused: ["red", "Another message has this key, so this one would be refused. Change the payload or the key."],
  refused: ["red", "The message would be refused."],
} as const;

/** Shows the key and the subject of a message, and the result of the check. `isBegun` is true if the user has filled in a field. */
export function Before({ kind, found, isBegun }: { kind: Message["kind"]; found: Result<Checked> | undefined; isBegun: boolean }) {
  if (found && !found.ok) return <ProblemNote problem={found.problem} />;
  if (!found) return <p class="quiet">Checking the message …</p>;
  const { key, subject, outcome, holder, refused } = found.data;
  const [tone, means] = OUTCOMES[outcome];
  const isNameless = kind === "event" && outcome === "new" && key === null;
  const isOpen = outcome === "refused" && !isBegun;
  return (
    <>
      <p class="send-outcome">
        <Status word={isOpen ? "incomplete" : isNameless ? "needs a key" : outcome} tone={isOpen ? "quiet" : isNameless ? "amber" : tone} />
        <span>
          {isOpen
            ? "The message cannot be sent yet:"
            : isNameless
              ? "An event needs an idempotency key, so that a repeat is recognized."
              : means}
        </span>
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
      {refused && (
        <ul class="send-issues">
          {(refused.issues ?? []).map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
          {(refused.issues ?? []).length === 0 && <li>{refused.detail}</li>}
        </ul>
      )}
      {subject !== null && <Pairs of={{ Key: key === null ? "none yet" : <code>{key}</code>, Subject: <bdi>{subject}</bdi> }} />}
    </>
  );
}

export interface Request {
  path: "/v1/commands" | "/v1/events" | "/v1/commands/batch" | "/v1/events/batch";
  key?: string;
  body: object;
}

/**
 * The request that sends a message. If the key of the message is invalid in a header, the message is sent in a batch, whose body can
 * contain the key.
 */
export function requestOf({ kind, type, payload, key, job, runAt }: Message & { job: string; runAt: string | undefined }): Request {
  const path = kind === "command" ? "/v1/commands" : "/v1/events";
  const item = { type, ...(job && { correlation_id: job }), ...(runAt && { run_at: runAt }), payload };
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

interface SaysProps {
  schema: Schema;
  payload: unknown;
  change: (payload: unknown) => void;
  example: unknown;
  isJson: boolean;
  told: Told;
}

export function Says({ schema, payload, change, example, isJson, told }: SaysProps) {
  const [round, setRound] = useState(0);
  const text = jsonText(payload, "  ");
  const read = payload instanceof Written ? readJson(text) : { value: payload };
  const isForm = !isJson && controlOf(schema) === "group";
  return (
    <>
      <div class="send-as">
        {(["form", "json"] as const).map((as) => (
          <button
            key={as}
            type="button"
            aria-pressed={(as === "json") === isJson}
            onClick={() => setFilters({ as: as === "json" ? as : undefined })}
          >
            {as === "json" ? "JSON" : "Form"}
          </button>
        ))}
        {example !== undefined && payload !== example && (
          <button type="button" class="plain" onClick={() => [change(example), setRound(round + 1)]}>
            Reset to the example
          </button>
        )}
      </div>
      {isForm && "why" in read && <p class="send-first">The form cannot show this payload: {read.why} Correct it here.</p>}
      {!isForm || "why" in read ? (
        <JsonField label="Payload" text={text} change={(next) => change(writtenJson(next))} />
      ) : (
        <Fields key={round} {...{ schema, value: read.value, path: "payload", told }} set={change} />
      )}
    </>
  );
}
