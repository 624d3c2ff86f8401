import { type Answer, post, type Result } from "../../data/api.ts";
import type { Problem } from "../../data/problem.ts";
import { jsonText, wrongIn } from "../../data/written.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { usePlan } from "../../parts/use-plan.ts";

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
      {subject !== null && (
        <dl class="send-facts">
          <dt>Key</dt>
          <dd>{key === null ? "none yet" : <code>{key}</code>}</dd>
          <dt>Subject</dt>
          <dd>
            <bdi>{subject}</bdi>
          </dd>
        </dl>
      )}
    </>
  );
}
