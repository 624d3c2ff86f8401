import type { EngineCode } from "../contract/errors.ts";

/** How the API responds to an error code, and the explanation of the code. */
export interface Problem {
  status: number;
  title: string;
  /** True if the same request may succeed later. */
  retryable?: boolean;
  meaning: string;
  next: string;
}

export type Problems = Readonly<Record<string, Problem>>;

type Explained<Code extends string> = Record<Code, readonly [title: string, meaning: string, next: string]>;

const permanent = <Code extends string>(status: number, explained: Explained<Code>) => problemsOf(status, false, explained);
const temporary = <Code extends string>(status: number, explained: Explained<Code>) => problemsOf(status, true, explained);

function problemsOf<Code extends string>(status: number, retryable: boolean, explained: Explained<Code>) {
  const entries = Object.entries<Explained<Code>[Code]>(explained);
  return Object.fromEntries(
    entries.map(([code, [title, meaning, next]]) => [code, { status, title, ...(retryable && { retryable }), meaning, next }]),
  ) as Record<Code, Problem>;
}

export const ENGINE_PROBLEMS = {
  ...permanent(400, {
    invalid_json: ["The body is not JSON", "The body cannot be parsed.", "Send one JSON value with its content type."],
  }),
  ...permanent(401, {
    unauthorized: [
      "No valid token",
      "The token is missing, unknown, wrong or expired, or the Cloudflare Access assertion is not valid.",
      "Send a valid token as Authorization: Bearer mr_…. Mint the first one with npx millrace token, others with POST /v1/tokens.",
    ],
    signature_invalid: [
      "The signature does not match",
      "The request is not signed with a secret of this deployment, or its time is more than five minutes from now.",
      "Check the secret on both sides, and the sender's clock.",
    ],
  }),
  ...permanent(403, {
    forbidden: [
      "The token may not do this",
      "The token lacks a scope, or the message belongs to another tenant.",
      "Use a token that has the scope the detail names.",
    ],
  }),
  ...permanent(404, {
    route_not_found: [
      "No such route",
      "No route has this path, or the route is disabled in this deployment.",
      "See /openapi.json for the routes.",
    ],
    instance_not_found: ["No such instance", "No instance of your tenant has this id.", "List them with GET /v1/instances."],
    effect_not_found: [
      "No such effect",
      "No effect of your tenant has this key.",
      "List effects with an unknown outcome with GET /v1/effects.",
    ],
    dead_letter_not_found: [
      "No such dead letter",
      "No dead letter that your token may read has this id.",
      "List them with GET /v1/dead-letters.",
    ],
    approval_not_found: ["No such approval", "No approval of your tenant has this id.", "List them with GET /v1/approvals."],
    schedule_not_found: ["No such schedule", "No schedule of your tenant has this name.", "List them with GET /v1/schedules."],
    lock_not_found: [
      "No such lock is held",
      "No lock of your tenant with this name is held now.",
      "List locks held for ten seconds or more with GET /v1/locks.",
    ],
    lane_not_found: [
      "No such lane",
      "This deployment has no lane with this name.",
      "List stalled lanes with GET /v1/lanes. GET /v1/catalog names all lane queues.",
    ],
    token_not_found: ["No such token", "No token of your tenant has this id.", "List them with GET /v1/tokens."],
    alert_not_found: ["No such alert", "No alert has this id, or it was removed.", "List them with GET /v1/alerts."],
    correlation_not_found: [
      "No such job",
      "No instance or message of your tenant has this correlation id, or all of them were removed.",
      "Search another name with GET /v1/search, or look up the key of one of its messages with GET /v1/keys/{key}.",
    ],
    key_not_found: [
      "The key has no holder",
      "No message of your tenant was accepted or captured with this key, or its tombstone was removed.",
      "Compare it with the idempotency_key of an instance. A derived key has the form that its command computes.",
    ],
    unknown_message_type: [
      "No such message type",
      "No deployed workflow handles this type, or a command was sent to a route for events, or the other way round.",
      "Check the spelling (did_you_mean), use the route named in the detail, or deploy the workflow first.",
    ],
    bulk_action_not_found: ["No such bulk action", "No bulk action of your tenant has this id.", "List them with GET /v1/bulk-actions."],
  }),
  ...permanent(405, {
    method_not_allowed: ["Method not allowed", "The route does not support this method.", "Use a method from the Allow header."],
  }),
  ...permanent(409, {
    invalid_transition: [
      "Not possible in the current state",
      "The requested transition is not possible; `from` is the current state, `to` the requested one.",
      "Read the state again: another request may have changed it.",
    ],
    in_doubt: [
      "The outcome of an effect is unknown",
      "It is unknown whether an effect happened, so it is not repeated automatically.",
      "Check the upstream, then confirm, reject or retry the effect.",
    ],
    database_set_back: [
      "The database was restored to an earlier state",
      "The platform completed steps of the run that the database does not contain, because an earlier state of it was restored.",
      "Restart the instance. Steps without a record run again by their effect class: a lookup asks the upstream first, a once becomes in_doubt.",
    ],
    more_matched: [
      "More items match than allowed",
      "More items match the filter now than `at_most` allows. The bulk action did not start.",
      "Repeat the dry run and send its count as `at_most`, or narrow the filter, for example with `until`.",
    ],
    out_of_order: [
      "The message is out of order",
      "Its sequence number is not the next one of this sender and subject, and the queue moves such messages to the dead letters.",
      "Replay the missing messages first, then this one.",
    ],
    too_many_hops: [
      "A chain of messages is too long",
      "The chain of runs that led to this message is longer than maxHops of the catalog. It may be a cycle.",
      "Remove the cycle or raise maxHops, then replay the dead letter. Its chain starts again at zero.",
    ],
  }),
  ...temporary(409, {
    bulk_actions_running: [
      "Too many bulk actions run",
      "The limit of concurrent bulk actions of your tenant is reached.",
      "Wait until one ends, or abort one. GET /v1/bulk-actions lists them.",
    ],
    lock_held: [
      "The lock is held",
      "The lock was not free within the wait time. The work did not start.",
      "Try again later. GET /v1/locks shows the holder.",
    ],
    lock_lost: [
      "The lock was lost",
      "The lock expired, or an operator broke it, before the work was done. Writes with its fencing token were refused.",
      "Try again: the work starts with a new fencing token.",
    ],
    lease_lost: [
      "Another attempt holds the step",
      "Another attempt took over the step. The outcome of this attempt was not recorded.",
      "No action is needed: the other attempt continues.",
    ],
  }),
  ...permanent(413, {
    payload_too_large: [
      "The body is too large",
      "The body exceeds the limit of the route.",
      "Store the data elsewhere and send a reference to it.",
    ],
  }),
  ...permanent(415, {
    unsupported_media_type: [
      "Unsupported content type",
      "The route does not support this content type.",
      "Send a content type named in the detail.",
    ],
  }),
  ...permanent(422, {
    invalid_envelope: [
      "The message is not valid",
      "A required field of the message is missing or wrong, or its version is newer than this deployment.",
      "Correct the fields in issues, or deploy the newer version first.",
    ],
    invalid_payload: [
      "The request is not valid",
      "A field does not match its schema.",
      "Correct the fields in issues and send the request again. It had no effect.",
    ],
    idempotency_key_reused: [
      "The idempotency key is in use",
      "The key belongs to earlier work, or to an earlier event, with a different payload. The earlier one was not changed.",
      "Use a new key for new work. To repeat the earlier work, send its payload.",
    ],
    output_too_large: [
      "The output is too large",
      "A step returned more than 4 MiB. Its effect happened and is not repeated.",
      "Confirm the effect with an output, then retry. Change the step so that it stores large data elsewhere.",
    ],
    output_not_serializable: [
      "The output is not JSON",
      "A step returned a value that is not JSON. Its effect happened and is not repeated.",
      "Confirm the effect with an output, then retry. Change the step so that it returns plain data.",
    ],
  }),
  ...permanent(426, {
    upgrade_required: ["A WebSocket is required", "The route is a WebSocket.", "Send `Upgrade: websocket`."],
  }),
  ...temporary(429, {
    rate_limited: ["Too many requests", "The rate limit of the token or the address is exceeded.", "Wait for the seconds in Retry-After."],
  }),
  ...permanent(500, {
    payload_missing: [
      "A stored payload is missing",
      "A payload or output is no longer in R2.",
      "Restore it in R2, then retry; or replay the message with a new payload.",
    ],
    step_failed: ["A step failed", "A step threw an error without a code.", "Read the message, fix the cause, then retry the instance."],
    not_retryable: [
      "A step failed permanently",
      "A step failed with an error that a retry cannot fix, such as a refused credential.",
      "Fix the cause named in the message, then retry the instance.",
    ],
    nondeterministic_steps: [
      "A workflow changed its steps",
      "A replay of the workflow ran a different step than recorded at this position, or used one step name twice.",
      "Use literal step names and put data into the key, then retry.",
    ],
    config_invalid: [
      "The deployment is not configured",
      "A binding, variable or table is missing, or a definition is wrong.",
      "Follow the detail, then deploy.",
    ],
    invariant: [
      "A bug in Millrace",
      "An internal invariant was violated.",
      "Report the route and the time to the maintainers of this deployment.",
    ],
  }),
  ...temporary(502, {
    upstream_refused: [
      "An upstream refused",
      "An upstream refused the call without any effect. The step has no retries left.",
      "Fix the cause named in the message, then retry the instance.",
    ],
  }),
  ...permanent(502, {
    child_failed: [
      "A child did not complete",
      "The instance that a step started and awaited failed, or was cancelled, closed or refused.",
      "Retry the child. When the child has completed, retry its parent.",
    ],
  }),
  ...temporary(503, {
    retry_after: [
      "An upstream asks to retry later",
      "An upstream asked to retry later more often than the step has retries.",
      "Wait, then retry the instance.",
    ],
    in_progress: [
      "An upstream is still processing",
      "An upstream was still processing an earlier attempt, and the step has no retries left.",
      "Wait, then retry the instance. It continues from the result of the upstream.",
    ],
    unavailable: [
      "Temporarily unavailable",
      "The database or an upstream gave no usable answer.",
      "Send the same request again after Retry-After. The same key has no second effect.",
    ],
  }),
  ...temporary(504, {
    route_timeout: [
      "An event route timed out",
      "The code called by a route of an event did not answer in time.",
      "Find the slow call in the code, or raise the timeout of the route, then replay the dead letter.",
    ],
    step_timeout: [
      "A step timed out",
      "An attempt took longer than the timeout of its step.",
      "Check whether the upstream is slow, then retry the instance.",
    ],
    wait_timeout: [
      "A wait timed out",
      "The event that an instance waited for did not arrive in time.",
      "Find out why the event was not sent, then retry the instance. It waits again.",
    ],
  }),
} satisfies Record<EngineCode, Problem>;

export function byStatus(problems: Problems): [code: string, Problem][] {
  return Object.entries(problems).toSorted(([, one], [, other]) => one.status - other.status);
}
