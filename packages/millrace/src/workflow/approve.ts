import { type Duration, durationMs, YEAR_MS } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { assertBounded, byteLength } from "../contract/limits.ts";
import { jsonOf } from "../contract/plain.ts";
import { characterCount, shortened } from "../contract/text.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Asker, Question } from "../signals/approval.ts";

/** A question to an operator. */
export interface ApprovalRequest {
  /** The question in one sentence, which names the consequence of an approval. Maximum length: 500 characters. */
  question: string;
  /** Data that helps the operator to decide, as JSON. Maximum size of the data: 16 KB. */
  details?: Record<string, unknown>;
  /** Time limit for the answer: default 7 days, at most 365 days. */
  timeout?: Duration;
  /** The decision if no operator answers within the timeout. Default "reject". */
  otherwise?: "approve" | "reject";
  /** Distinguishes parallel or repeated questions that have the same name. Derive the key from the data of the question. */
  key?: string;
}

const MAX_QUESTION_CHARACTERS = 500;
const MAX_DETAILS_BYTES = 16 * 1024;
const DEFAULT_TIMEOUT: Duration = "7 days";

export function askerAt({ env, envelope, instanceId, version }: Replay, { label }: StepCall): Asker {
  return { env, tenantId: envelope.tenant_id, instanceId, label, version };
}

/** Validates a question to an operator. Errors: `invalid_payload`. */
export function questionOf(workflow: string, { label }: StepCall, request: ApprovalRequest): Omit<Question, "run"> {
  const { question, details, timeout = DEFAULT_TIMEOUT, otherwise = "reject" } = request;
  const refused = (why: string) => new MillraceError("invalid_payload", `The approval "${label}" is invalid: ${why}.`);
  const count = typeof question === "string" ? characterCount(question) : 0;
  if (count === 0 || count > MAX_QUESTION_CHARACTERS) {
    throw refused(`its question has ${count} characters; use 1 to ${MAX_QUESTION_CHARACTERS}, and put the rest into details`);
  }
  if (otherwise !== "approve" && otherwise !== "reject") throw refused('its `otherwise` is neither "approve" nor "reject"');
  const packed = packedDetails(details, refused);
  if (packed !== null && byteLength(packed) > MAX_DETAILS_BYTES) {
    throw refused(`its details are larger than ${MAX_DETAILS_BYTES} bytes; give a link instead`);
  }
  const timeoutMs = durationMs(timeout);
  if (timeoutMs > YEAR_MS) throw refused("its timeout is longer than 365 days, the platform's longest wait");
  return { workflow, question, details: packed, otherwise, timeoutMs };
}

function packedDetails(details: unknown, refused: (why: string) => MillraceError): string | null {
  if (details === undefined) return null;
  try {
    const { text, why } = jsonOf(details);
    if (text === undefined) throw new Error(why);
    assertBounded(JSON.parse(text), { at: "details" });
    return text;
  } catch (cause) {
    throw refused(`its details are not plain, small data (${shortened(messageOf(cause), 200)})`);
  }
}
