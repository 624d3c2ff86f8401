import { errors, MillraceError, notRetryable, texts, upstreamRefused } from "millrace";
import type { CrmRefusal } from "./crm.ts";
import { HubspotError } from "./hubspot-wire.ts";
import { jsonOf } from "./json.ts";
import { type Answer, type Counterpart, comeBack, refusal } from "./refusal.ts";

/** The delay after a 429 response that requests no delay, by the limit that was reached. */
const POLICY_DELAYS_MS: Record<string, number> = {
  SECONDLY: 1_000,
  TEN_SECONDLY_ROLLING: 10_000,
  // The daily limit ends at midnight in the account's time zone, which HubSpot does not report. A retry every hour uses at most 24 calls of
  // the daily limit.
  DAILY: 60 * 60_000,
};
/** The delay for a record that HubSpot itself is working on (423). HubSpot's page "Error handling" asks for at least 2 seconds. */
const LOCKED_DELAY_MS = 2_000;
/** The delay while HubSpot moves the account to another data center (477). The move takes up to a day. */
const MIGRATION_DELAY_MS = 10 * 60_000;
/**
 * Maximum length of the quoted part of HubSpot's message. The message may contain a list of errors, and the quoted part has room for a few
 * of the errors.
 */
const MAX_QUOTE_LENGTH = 500;

/** HubSpot's category for a missing record. */
export const GONE = "OBJECT_NOT_FOUND";

/**
 * HubSpot's error categories that a retry of the same record cannot fix. Records with any other category are retried, even if the category
 * is unknown.
 */
const FINAL = /^(VALIDATION|CONFLICT|OBJECT_|INVALID|PROPERTY_|MISSING|DUPLICATE|UNIQUE|BAD_REQUEST|FORBIDDEN|PERMISSION|BANNED)/;

function mayPass({ category }: HubspotError): boolean {
  return !FINAL.test(category);
}

/** Converts HubSpot's error of one record to a refusal: HubSpot's category, and a message with the error's text and correlation id. */
export function asRefusal(upstream: Counterpart, fault: HubspotError): CrmRefusal {
  const correlationId = fault.correlationId ?? fault.id ?? null;
  return { retry: mayPass(fault), category: fault.category, message: withId(fault, wordsOf(upstream, fault)), correlationId };
}

/**
 * Returns HubSpot's error if HubSpot refused the whole batch because of one of its records. The result is undefined for every other error.
 */
export function batchFault(error: unknown): HubspotError | undefined {
  return error instanceof BatchRefusal ? error.fault : undefined;
}

/** This error is internal to the connector, which converts it into results of records. */
class BatchRefusal extends MillraceError {
  constructor(
    readonly fault: HubspotError,
    message: string,
    upstreamStatus: number,
  ) {
    super("not_retryable", message, { upstreamStatus });
  }
}

/**
 * Creates the error of a HubSpot response outside 2xx. Every message contains HubSpot's correlation id, because HubSpot's support asks for
 * this id.
 */
export function hubspotRefusal(upstream: Counterpart, answer: Answer): MillraceError | undefined {
  const fault = bodyOf(answer.text);
  if (!fault) return undefined;
  const { status } = answer;
  const said = `${upstream.name} answered ${status} ${inWords(upstream, fault)}`;
  const asked = errors.retryAfterMs(answer.headers.get("retry-after"));

  if (status === 429) return comeBack(asked, said, status, POLICY_DELAYS_MS[fault.policyName ?? ""]);
  if (status === 423) return comeBack(asked, said, status, LOCKED_DELAY_MS);
  if (status === 477) return comeBack(asked, said, status, MIGRATION_DELAY_MS);
  if (status === 503 && asked !== undefined) return comeBack(asked, said, status);
  if (status === 401 || status === 403) return notRetryable(`${said} Check ${upstream.credential.variable} and the app's scopes.`, status);
  if (status === 400 || status === 409) return new BatchRefusal(fault, said, status);
  // A wrong URL also returns 404, so only HubSpot's category shows that a record is missing.
  if (status === 404) return fault.category === GONE ? new BatchRefusal(fault, said, status) : notRetryable(said, status);
  // Any other status is handled as for every upstream. For example, the outcome is unknown after a 5xx.
  if (status >= 500) return new MillraceError("unavailable", `${said} The outcome is unknown.`, { upstreamStatus: status });
  return status >= 400 ? upstreamRefused(said, status) : refusal(upstream, answer);
}

/** Describes an error of the whole call: its category, HubSpot's message and its correlation id. */
function inWords(upstream: Counterpart, fault: HubspotError): string {
  return withId(fault, `${fault.category} (${wordsOf(upstream, fault)})`);
}

/** Returns HubSpot's message, shortened and without the app's token. */
function wordsOf(upstream: Counterpart, fault: HubspotError): string {
  const words = [fault.message, ...fault.errors.map(({ message }) => message)].filter(Boolean).join("; ");
  return texts.beginning(words.replaceAll(upstream.credential.value, "***").replace(/\s+/g, " ").trim(), MAX_QUOTE_LENGTH);
}

function withId({ correlationId, id }: HubspotError, said: string): string {
  const correlation = correlationId ?? id;
  return `${said.replace(/\.$/, "")}${correlation ? `, correlation id ${correlation}` : ""}.`;
}

function bodyOf(text: string): HubspotError | undefined {
  return HubspotError.safeParse(jsonOf(text)).data;
}
