import type { EngineCode } from "../contract/errors.ts";
import { BULK_PROBLEMS } from "./bulk-problems.ts";
import { NOT_FOUND_PROBLEMS } from "./not-found.ts";

/** How a code is answered over HTTP, and what people are told of it. */
export interface Problem {
  status: number;
  title: string;
  /** True when the same request may succeed later. */
  retryable?: boolean;
  means: string;
  /** What its reader does next. */
  next: string;
}

export type Problems = Readonly<Record<string, Problem>>;

/** Codes that only HTTP can be refused with. */
type HttpCode = "route_not_found" | "token_not_found" | "method_not_allowed" | "unsupported_media_type";

/** The answers to the engine's own codes: a code without a line here does not compile. */
export const ENGINE_PROBLEMS = {
  invalid_json: {
    status: 400,
    title: "The body is not JSON",
    means: "The body cannot be parsed.",
    next: "Send one JSON value with its content type.",
  },
  unauthorized: {
    status: 401,
    title: "No valid token",
    means: "There is no token, or it is unknown, wrong or expired; or what Cloudflare Access says of a person is.",
    next: "Send a good one as Authorization: Bearer mr_…: POST /v1/tokens mints others, npm run token the first.",
  },
  forbidden: {
    status: 403,
    title: "The token may not do this",
    means: "The token lacks a scope, or the message is another tenant's.",
    next: "Use a token that has the scope the detail names.",
  },
  route_not_found: {
    status: 404,
    title: "No such route",
    means: "No route has this path, or it is switched off here.",
    next: "Look it up in /openapi.json.",
  },
  instance_not_found: {
    status: 404,
    title: "No such instance",
    means: "No instance of your tenant has this id.",
    next: "List them with GET /v1/instances.",
  },
  effect_not_found: {
    status: 404,
    title: "No such effect",
    means: "No effect of your tenant has this key.",
    next: "List those in doubt with GET /v1/effects.",
  },
  dead_letter_not_found: {
    status: 404,
    title: "No such dead letter",
    means: "No dead letter that you may see has this id.",
    next: "List them with GET /v1/dead-letters.",
  },
  approval_not_found: {
    status: 404,
    title: "No such approval",
    means: "No approval of your tenant has this id.",
    next: "List them with GET /v1/approvals.",
  },
  schedule_not_found: {
    status: 404,
    title: "No such schedule",
    means: "No schedule of your tenant has this name.",
    next: "List them with GET /v1/schedules.",
  },
  lock_not_found: {
    status: 404,
    title: "No such lock is held",
    means: "Nobody of your tenant holds a lock of this name now.",
    next: "List those held for long with GET /v1/locks.",
  },
  lane_not_found: {
    status: 404,
    title: "No such lane",
    means: "This deployment has no lane of this name.",
    next: "List those that stand still with GET /v1/lanes; the consumers of the deployment name all.",
  },
  token_not_found: {
    status: 404,
    title: "No such token",
    means: "No token of your tenant has this id.",
    next: "List them with GET /v1/tokens.",
  },
  ...NOT_FOUND_PROBLEMS,
  unknown_message_type: {
    status: 404,
    title: "No such message type",
    means: "No workflow here takes this type; or it is an event, and commands were asked for, or the other way round.",
    next: "Check its spelling against did_you_mean, use the route that the detail names, or deploy the workflow first.",
  },
  method_not_allowed: {
    status: 405,
    title: "The route does not take this method",
    means: "The route takes other methods.",
    next: "Use one that the Allow header names.",
  },
  invalid_transition: {
    status: 409,
    title: "Not possible in its present state",
    means: "What you ask for is not possible from the state it is in; from and to name both.",
    next: "Read the state again: somebody may have been faster.",
  },
  in_doubt: {
    status: 409,
    title: "An effect is in doubt",
    means: "Nobody knows whether an effect happened, so the machine does not repeat it.",
    next: "Look upstream, then confirm, reject or retry the effect.",
  },
  database_set_back: {
    status: 409,
    title: "The database was set back behind the run",
    means: "The platform has done steps of the run that the database has no record of, because an earlier state of it was restored.",
    next: "Restart the instance: steps without a record are done again by their class. A lookup asks first, a once waits in doubt.",
  },
  ...BULK_PROBLEMS,
  lock_held: {
    status: 409,
    title: "Somebody else holds the lock",
    retryable: true,
    means: "A lock was not free within the time that its asker was ready to wait. Nothing was done.",
    next: "Try again later, or see with GET /v1/locks who holds it.",
  },
  lock_lost: {
    status: 409,
    title: "The lock was lost",
    retryable: true,
    means: "A holder's time was over, or an operator broke the lock, before its work was done. What it wrote under its token was refused.",
    next: "Try again: its work begins under a new token.",
  },
  lease_lost: {
    status: 409,
    title: "Somebody else holds the step",
    retryable: true,
    means: "Another attempt took the step over; this one's outcome was not recorded.",
    next: "Nothing: the other attempt goes on.",
  },
  payload_too_large: {
    status: 413,
    title: "The body is too large",
    means: "The body is over the route's limit.",
    next: "Store the data yourself and send a reference to it.",
  },
  unsupported_media_type: {
    status: 415,
    title: "The route does not take this content type",
    means: "The route does not read this content type.",
    next: "Send the type that the detail names.",
  },
  invalid_envelope: {
    status: 422,
    title: "The message is not valid",
    means: "A field every message carries is missing or wrong, or its version is newer than this deployment.",
    next: "Correct the fields in issues, or deploy the newer version here first.",
  },
  invalid_payload: {
    status: 422,
    title: "The request is not valid",
    means: "A field does not fit its schema.",
    next: "Correct the fields in issues and send it again: nothing was kept.",
  },
  idempotency_key_reused: {
    status: 422,
    title: "The idempotency key is taken",
    means: "The key belongs to earlier work, or an earlier event, with another payload, which was left untouched.",
    next: "Give what is new its own key; to repeat what is old, send the old payload.",
  },
  output_too_large: {
    status: 422,
    title: "The output is too large",
    means: "A step answered more than 4 MiB. Its effect happened all the same and is not repeated.",
    next: "Confirm the effect with an output, then retry; let the step store such data itself.",
  },
  output_not_serializable: {
    status: 422,
    title: "The output is not JSON",
    means: "A step answered something that is not JSON. Its effect happened all the same and is not repeated.",
    next: "Confirm the effect with an output, then retry; let the step return plain data.",
  },
  rate_limited: {
    status: 429,
    title: "Too many requests",
    retryable: true,
    means: "Too many requests.",
    next: "Wait as long as Retry-After says.",
  },
  payload_missing: {
    status: 500,
    title: "A stored payload is gone",
    means: "A payload or output that was stored in R2 is gone.",
    next: "Put it back, then retry; or replay its message with a new payload.",
  },
  step_failed: {
    status: 500,
    title: "A step failed",
    means: "A step threw an error that nobody named.",
    next: "Read the message, mend the cause, then retry the instance.",
  },
  not_retryable: {
    status: 500,
    title: "A step failed for good",
    means: "A step failed in a way that another try cannot cure, such as a refused credential.",
    next: "Mend what the message names, then retry the instance.",
  },
  nondeterministic_steps: {
    status: 500,
    title: "A workflow changed its steps",
    means: "A pass of an instance named another step than the one an earlier pass recorded there, or one name twice.",
    next: "Use literal names and put data into the key; then retry.",
  },
  config_invalid: {
    status: 500,
    title: "The deployment is not configured",
    means: "A binding, variable or table is missing, or a definition is at fault.",
    next: "Do what the detail says, then deploy.",
  },
  invariant: {
    status: 500,
    title: "A bug in Millrace",
    means: "Something happened that should be impossible.",
    next: "Report the route and the time to whoever maintains this deployment.",
  },
  upstream_refused: {
    status: 502,
    title: "An upstream refused",
    retryable: true,
    means: "An upstream said that it did nothing. The step's retries are used up.",
    next: "Mend what the message names, then retry the instance.",
  },
  retry_after: {
    status: 503,
    title: "An upstream asks for patience",
    retryable: true,
    means: "An upstream asked for patience more often than the step has retries.",
    next: "Wait, then retry the instance.",
  },
  in_progress: {
    status: 503,
    title: "An upstream is still at work",
    retryable: true,
    means: "An upstream was still at work on an earlier attempt, more often than the step has retries.",
    next: "Wait, then retry the instance: it goes on from what the upstream did.",
  },
  unavailable: {
    status: 503,
    title: "The database is in trouble",
    retryable: true,
    means: "The database, or an upstream, gave no usable answer.",
    next: "Send the same request again after Retry-After: with the same key it is the same work.",
  },
  route_timeout: {
    status: 504,
    title: "What an event leads to took too long",
    retryable: true,
    means: "The code behind an event's route did not answer in time.",
    next: "See what it waits for, or give its line in the routes more time; then replay the dead letter.",
  },
  out_of_order: {
    status: 409,
    title: "The message came out of its sender's order",
    means: "Its number is not the next of its sender about its subject, and its queue's rule for gaps sent it here.",
    next: "Replay what is missing first, then this.",
  },
  too_many_hops: {
    status: 409,
    title: "A chain went too far, or in a circle",
    means: "More runs led to this message, one after another, than the catalog's maxHops allows.",
    next: "End the circle, or raise maxHops; then replay the dead letter, with which its chain begins anew.",
  },
  step_timeout: {
    status: 504,
    title: "A step took too long",
    retryable: true,
    means: "An attempt took longer than its step's timeout.",
    next: "See whether the upstream is slow; then retry the instance.",
  },
  wait_timeout: {
    status: 504,
    title: "A wait took too long",
    retryable: true,
    means: "The event an instance waited for did not come in time.",
    next: "See why it was not sent; then retry the instance, which waits again.",
  },
} as const satisfies Record<EngineCode | HttpCode, Problem>;

/** Codes with their answers, in the order of their status. */
export function byStatus(problems: Problems): [code: string, Problem][] {
  return Object.entries(problems).toSorted(([, one], [, other]) => one.status - other.status);
}
