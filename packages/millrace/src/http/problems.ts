import type { EngineCode } from "../contract/errors.ts";

/** How the API responds to an error code, and the explanation of the code. */
export interface Problem {
  status: number;
  title: string;
  /** True if the same request may succeed later. */
  retryable?: boolean;
  means: string;
  next: string;
}

const notFound = (title: string, means: string, next: string): Problem => ({ status: 404, title, means, next });

export type Problems = Readonly<Record<string, Problem>>;

/** Error codes that exist only in HTTP responses. */
type HttpCode =
  | "signature_invalid"
  | "route_not_found"
  | "token_not_found"
  | "method_not_allowed"
  | "unsupported_media_type"
  | "upgrade_required"
  | "bulk_action_not_found"
  | "bulk_actions_running"
  | "more_matched"
  | "alert_not_found"
  | "correlation_not_found"
  | "key_not_found";

/** The responses to the engine's error codes. The type requires an entry for each code. */
export const ENGINE_PROBLEMS: Readonly<Record<EngineCode | HttpCode, Problem>> = {
  invalid_json: {
    status: 400,
    title: "The body is not JSON",
    means: "The body cannot be parsed.",
    next: "Send one JSON value with its content type.",
  },
  unauthorized: {
    status: 401,
    title: "No valid token",
    means: "The token is missing, unknown, wrong or expired, or the Cloudflare Access assertion is not valid.",
    next: "Send a valid token as Authorization: Bearer mr_…. Mint the first one with npx millrace token, others with POST /v1/tokens.",
  },
  signature_invalid: {
    status: 401,
    title: "The signature does not match",
    means: "The request is not signed with a secret of this deployment, or its time is more than five minutes from now.",
    next: "Check the secret on both sides, and the sender's clock.",
  },
  forbidden: {
    status: 403,
    title: "The token may not do this",
    means: "The token lacks a scope, or the message belongs to another tenant.",
    next: "Use a token that has the scope the detail names.",
  },
  route_not_found: notFound(
    "No such route",
    "No route has this path, or the route is disabled in this deployment.",
    "See /openapi.json for the routes.",
  ),
  instance_not_found: notFound("No such instance", "No instance of your tenant has this id.", "List them with GET /v1/instances."),
  effect_not_found: notFound(
    "No such effect",
    "No effect of your tenant has this key.",
    "List effects with an unknown outcome with GET /v1/effects.",
  ),
  dead_letter_not_found: notFound(
    "No such dead letter",
    "No dead letter that your token may read has this id.",
    "List them with GET /v1/dead-letters.",
  ),
  approval_not_found: notFound("No such approval", "No approval of your tenant has this id.", "List them with GET /v1/approvals."),
  schedule_not_found: notFound("No such schedule", "No schedule of your tenant has this name.", "List them with GET /v1/schedules."),
  lock_not_found: notFound(
    "No such lock is held",
    "No lock of your tenant with this name is held now.",
    "List locks held for ten seconds or more with GET /v1/locks.",
  ),
  lane_not_found: notFound(
    "No such lane",
    "This deployment has no lane with this name.",
    "List stalled lanes with GET /v1/lanes. GET /v1/catalog names all lane queues.",
  ),
  token_not_found: notFound("No such token", "No token of your tenant has this id.", "List them with GET /v1/tokens."),
  alert_not_found: notFound("No such alert", "No alert has this id, or it was removed.", "List them with GET /v1/alerts."),
  correlation_not_found: notFound(
    "No such job",
    "No instance or message of your tenant has this correlation id, or all of them were removed.",
    "Search another name with GET /v1/search, or look up the key of one of its messages with GET /v1/keys/{key}.",
  ),
  key_not_found: notFound(
    "The key has no holder",
    "No message of your tenant was accepted or captured with this key, or its tombstone was removed.",
    "Compare it with the idempotency_key of an instance. A derived key has the form that its command computes.",
  ),
  unknown_message_type: notFound(
    "No such message type",
    "No deployed workflow handles this type, or a command was sent to a route for events, or the other way round.",
    "Check the spelling (did_you_mean), use the route named in the detail, or deploy the workflow first.",
  ),
  method_not_allowed: {
    status: 405,
    title: "Method not allowed",
    means: "The route does not support this method.",
    next: "Use a method from the Allow header.",
  },
  invalid_transition: {
    status: 409,
    title: "Not possible in the current state",
    means: "The requested transition is not possible; `from` is the current state, `to` the requested one.",
    next: "Read the state again: another request may have changed it.",
  },
  in_doubt: {
    status: 409,
    title: "The outcome of an effect is unknown",
    means: "It is unknown whether an effect happened, so it is not repeated automatically.",
    next: "Check the upstream, then confirm, reject or retry the effect.",
  },
  database_set_back: {
    status: 409,
    title: "The database was restored to an earlier state",
    means: "The platform completed steps of the run that the database does not contain, because an earlier state of it was restored.",
    next: "Restart the instance. Steps without a record run again by their effect class: a lookup asks the upstream first, a once becomes in_doubt.",
  },
  bulk_action_not_found: notFound(
    "No such bulk action",
    "No bulk action of your tenant has this id.",
    "List them with GET /v1/bulk-actions.",
  ),
  bulk_actions_running: {
    status: 409,
    title: "Too many bulk actions run",
    retryable: true,
    means: "The limit of concurrent bulk actions of your tenant is reached.",
    next: "Wait until one ends, or abort one. GET /v1/bulk-actions lists them.",
  },
  more_matched: {
    status: 409,
    title: "More items match than allowed",
    means: "More items match the filter now than `at_most` allows. The bulk action did not start.",
    next: "Repeat the dry run and send its count as `at_most`, or narrow the filter, for example with `until`.",
  },
  lock_held: {
    status: 409,
    title: "The lock is held",
    retryable: true,
    means: "The lock was not free within the wait time. The work did not start.",
    next: "Try again later. GET /v1/locks shows the holder.",
  },
  lock_lost: {
    status: 409,
    title: "The lock was lost",
    retryable: true,
    means: "The lock expired, or an operator broke it, before the work was done. Writes with its fencing token were refused.",
    next: "Try again: the work starts with a new fencing token.",
  },
  lease_lost: {
    status: 409,
    title: "Another attempt holds the step",
    retryable: true,
    means: "Another attempt took over the step. The outcome of this attempt was not recorded.",
    next: "No action is needed: the other attempt continues.",
  },
  payload_too_large: {
    status: 413,
    title: "The body is too large",
    means: "The body exceeds the limit of the route.",
    next: "Store the data elsewhere and send a reference to it.",
  },
  unsupported_media_type: {
    status: 415,
    title: "Unsupported content type",
    means: "The route does not support this content type.",
    next: "Send a content type named in the detail.",
  },
  invalid_envelope: {
    status: 422,
    title: "The message is not valid",
    means: "A required field of the message is missing or wrong, or its version is newer than this deployment.",
    next: "Correct the fields in issues, or deploy the newer version first.",
  },
  invalid_payload: {
    status: 422,
    title: "The request is not valid",
    means: "A field does not match its schema.",
    next: "Correct the fields in issues and send the request again. It had no effect.",
  },
  idempotency_key_reused: {
    status: 422,
    title: "The idempotency key is in use",
    means: "The key belongs to earlier work, or to an earlier event, with a different payload. The earlier one was not changed.",
    next: "Use a new key for new work. To repeat the earlier work, send its payload.",
  },
  output_too_large: {
    status: 422,
    title: "The output is too large",
    means: "A step returned more than 4 MiB. Its effect happened and is not repeated.",
    next: "Confirm the effect with an output, then retry. Change the step so that it stores large data elsewhere.",
  },
  output_not_serializable: {
    status: 422,
    title: "The output is not JSON",
    means: "A step returned a value that is not JSON. Its effect happened and is not repeated.",
    next: "Confirm the effect with an output, then retry. Change the step so that it returns plain data.",
  },
  upgrade_required: {
    status: 426,
    title: "A WebSocket is required",
    means: "The route is a WebSocket.",
    next: "Send `Upgrade: websocket`.",
  },
  rate_limited: {
    status: 429,
    title: "Too many requests",
    retryable: true,
    means: "The rate limit of the token or the address is exceeded.",
    next: "Wait for the seconds in Retry-After.",
  },
  payload_missing: {
    status: 500,
    title: "A stored payload is missing",
    means: "A payload or output is no longer in R2.",
    next: "Restore it in R2, then retry; or replay the message with a new payload.",
  },
  step_failed: {
    status: 500,
    title: "A step failed",
    means: "A step threw an error without a code.",
    next: "Read the message, fix the cause, then retry the instance.",
  },
  not_retryable: {
    status: 500,
    title: "A step failed permanently",
    means: "A step failed with an error that a retry cannot fix, such as a refused credential.",
    next: "Fix the cause named in the message, then retry the instance.",
  },
  nondeterministic_steps: {
    status: 500,
    title: "A workflow changed its steps",
    means: "A replay of the workflow ran a different step than recorded at this position, or used one step name twice.",
    next: "Use literal step names and put data into the key, then retry.",
  },
  config_invalid: {
    status: 500,
    title: "The deployment is not configured",
    means: "A binding, variable or table is missing, or a definition is wrong.",
    next: "Follow the detail, then deploy.",
  },
  invariant: {
    status: 500,
    title: "A bug in Millrace",
    means: "An internal invariant was violated.",
    next: "Report the route and the time to the maintainers of this deployment.",
  },
  upstream_refused: {
    status: 502,
    title: "An upstream refused",
    retryable: true,
    means: "An upstream refused the call without any effect. The step has no retries left.",
    next: "Fix the cause named in the message, then retry the instance.",
  },
  retry_after: {
    status: 503,
    title: "An upstream asks to retry later",
    retryable: true,
    means: "An upstream asked to retry later more often than the step has retries.",
    next: "Wait, then retry the instance.",
  },
  in_progress: {
    status: 503,
    title: "An upstream is still processing",
    retryable: true,
    means: "An upstream was still processing an earlier attempt, and the step has no retries left.",
    next: "Wait, then retry the instance. It continues from the result of the upstream.",
  },
  unavailable: {
    status: 503,
    title: "Temporarily unavailable",
    retryable: true,
    means: "The database or an upstream gave no usable answer.",
    next: "Send the same request again after Retry-After. The same key has no second effect.",
  },
  route_timeout: {
    status: 504,
    title: "An event route timed out",
    retryable: true,
    means: "The code called by a route of an event did not answer in time.",
    next: "Find the slow call in the code, or raise the timeout of the route, then replay the dead letter.",
  },
  out_of_order: {
    status: 409,
    title: "The message is out of order",
    means: "Its sequence number is not the next one of this sender and subject, and the queue moves such messages to the dead letters.",
    next: "Replay the missing messages first, then this one.",
  },
  too_many_hops: {
    status: 409,
    title: "A chain of messages is too long",
    means: "The chain of runs that led to this message is longer than maxHops of the catalog. It may be a cycle.",
    next: "Remove the cycle or raise maxHops, then replay the dead letter. Its chain starts again at zero.",
  },
  step_timeout: {
    status: 504,
    title: "A step timed out",
    retryable: true,
    means: "An attempt took longer than the timeout of its step.",
    next: "Check whether the upstream is slow, then retry the instance.",
  },
  child_failed: {
    status: 502,
    title: "A child did not complete",
    means: "The instance that a step started and awaited failed, or was cancelled, closed or refused.",
    next: "Retry the child. When the child has completed, retry its parent.",
  },
  wait_timeout: {
    status: 504,
    title: "A wait timed out",
    retryable: true,
    means: "The event that an instance waited for did not arrive in time.",
    next: "Find out why the event was not sent, then retry the instance. It waits again.",
  },
};

export function byStatus(problems: Problems): [code: string, Problem][] {
  return Object.entries(problems).toSorted(([, one], [, other]) => one.status - other.status);
}
