import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { html } from "hono/html";
import type { ApiEnv } from "./env.ts";
import { answerHtml } from "./landing.ts";
import { PROBLEMS, PROBLEMS_PATH, type ProblemCode, problems } from "./problem.ts";

/** What each code means, and what its reader does next. A code without a line here does not compile. */
const ADVICE: Record<ProblemCode, readonly [means: string, next: string]> = {
  invalid_json: ["The body cannot be parsed.", "Send one JSON value with its content type."],
  unauthorized: [
    "There is no token, or it is unknown, wrong or expired.",
    "Send a good one as Authorization: Bearer mr_…; its operator mints them.",
  ],
  forbidden: ["The token lacks a scope, or the message is another tenant's.", "Use a token that has the scope the detail names."],
  route_not_found: ["No route has this path, or it is switched off here.", "Look it up in /openapi.json."],
  page_not_found: ["No page is published under this path.", "Check the address; an article's row says where its page is."],
  ledger_not_found: [
    "No fact of this entity was ever stated by your tenant.",
    "List facts with GET /v1/facts; mind the entity's spelling.",
  ],
  rules_not_found: ["Your tenant's rules have no version of this number.", "List them with GET /v1/qualification-rules/versions."],
  instance_not_found: ["No instance of your tenant has this id.", "List them with GET /v1/instances."],
  effect_not_found: ["No effect of your tenant has this key.", "List those in doubt with GET /v1/effects."],
  dead_letter_not_found: ["No dead letter that you may see has this id.", "List them with GET /v1/dead-letters."],
  webhook_not_found: ["No webhook endpoint of your tenant has this id.", "List them with GET /v1/webhooks."],
  delivery_not_found: ["This webhook endpoint has no delivery of this id.", "List them with GET /v1/webhooks/{id}/deliveries."],
  batch_not_found: ["No batch of your tenant has this id.", "List them with GET /v1/batches."],
  file_not_found: ["The file is not in your tenant's folder of the bucket.", "Put it below files/{tenant}/, or send it as the body."],
  approval_not_found: ["No approval of your tenant has this id.", "List them with GET /v1/approvals."],
  schedule_not_found: ["No schedule of your tenant has this name.", "List them with GET /v1/schedules."],
  brand_not_found: ["Your tenant has no brand of this name.", "List them with GET /v1/brands; PUT /v1/brands/{brand} makes one."],
  article_not_found: ["No article of your tenant has this id.", "List them with GET /v1/articles."],
  contact_not_found: ["No contact of your tenant has this id.", "List them with GET /v1/contacts; a batch brings them in."],
  sync_not_found: ["No sync of your tenant has this id.", "List them with GET /v1/crm/syncs."],
  token_not_found: ["No token of your tenant has this id.", "List them with GET /v1/tokens."],
  signature_invalid: [
    "The request is not signed with the secret that both sides share, or its time is too far from now.",
    "Check the secret on both sides, and the sender's clock.",
  ],
  unknown_message_type: [
    "No workflow here takes this type; or it is an event, and commands were asked for, or the other way round.",
    "Check its spelling against did_you_mean, use the route that the detail names, or deploy the workflow first.",
  ],
  method_not_allowed: ["The route takes other methods.", "Use one that the Allow header names."],
  invalid_transition: [
    "What you ask for is not possible from the state it is in; from and to name both.",
    "Read the state again: somebody may have been faster.",
  ],
  in_doubt: [
    "Nobody knows whether an effect happened, so the machine does not repeat it.",
    "Look upstream, then confirm, reject or retry the effect.",
  ],
  lease_lost: ["Another attempt took the step over; this one's outcome was not recorded.", "Nothing: the other attempt goes on."],
  length_required: ["A file came without its length.", "Send a Content-Length; curl does with --data-binary @file."],
  payload_too_large: ["The body is over the route's limit.", "Store the data yourself and send a reference to it."],
  unsupported_media_type: ["The route does not read this content type.", "Send the type that the detail names."],
  invalid_envelope: [
    "A field every message carries is missing or wrong, or its version is newer than this deployment.",
    "Correct the fields in issues, or deploy the newer version here first.",
  ],
  invalid_payload: ["A field does not fit its schema.", "Correct the fields in issues and send it again: nothing was kept."],
  idempotency_key_reused: [
    "The key belongs to earlier work, or an earlier event, with another payload, which was left untouched.",
    "Give what is new its own key; to repeat what is old, send the old payload.",
  ],
  output_too_large: [
    "A step answered more than 4 MiB. Its effect happened all the same and is not repeated.",
    "Confirm the effect with an output, then retry; let the step store such data itself.",
  ],
  output_not_serializable: [
    "A step answered something that is not JSON. Its effect happened all the same and is not repeated.",
    "Confirm the effect with an output, then retry; let the step return plain data.",
  ],
  rate_limited: ["Too many requests.", "Wait as long as Retry-After says."],
  payload_missing: [
    "A payload or output that was stored in R2 is gone.",
    "Put it back, then retry; or replay its message with a new payload.",
  ],
  step_failed: ["A step threw an error that nobody named.", "Read the message, mend the cause, then retry the instance."],
  not_retryable: [
    "A step failed in a way that another try cannot cure, such as a refused credential.",
    "Mend what the message names, then retry the instance.",
  ],
  nondeterministic_steps: [
    "A pass of an instance named another step than the one an earlier pass recorded there, or one name twice.",
    "Use literal names and put data into the key; then retry.",
  ],
  config_invalid: ["A binding, variable or table is missing.", "Do what the detail says, then deploy."],
  invariant: ["Something happened that should be impossible.", "Report the route and the time to whoever maintains this deployment."],
  answer_truncated: [
    "A model's answer ended before its text did. What it cost is recorded.",
    "Retry the instance: it is asked for with twice the tokens, up to 32,768.",
  ],
  answer_refused: ["A model would not write this. What it cost is recorded.", "Change what is asked, then retry the instance."],
  answer_empty: ["A model answered without a text. What it cost is recorded.", "Retry the instance; if it stays so, take another model."],
  answer_malformed: [
    "A model's answer is not in the format that was asked for. What it cost is recorded.",
    "Retry the instance; if it stays so, mend the prompt.",
  ],
  upstream_refused: [
    "An upstream said that it did nothing. The step's retries are used up.",
    "Mend what the message names, then retry the instance.",
  ],
  retry_after: ["An upstream asked for patience more often than the step has retries.", "Wait, then retry the instance."],
  in_progress: [
    "An upstream was still at work on an earlier attempt, more often than the step has retries.",
    "Wait, then retry the instance: it goes on from what the upstream did.",
  ],
  unavailable: [
    "The database, or an upstream, gave no usable answer.",
    "Send the same request again after Retry-After: with the same key it is the same work.",
  ],
  route_timeout: [
    "The code behind an event's route did not answer in time.",
    "See what it waits for, or give its line in the routes more time; then replay the dead letter.",
  ],
  step_timeout: ["An attempt took longer than its step's timeout.", "See whether the upstream is slow; then retry the instance."],
  wait_timeout: [
    "The event an instance waited for did not come in time.",
    "See why it was not sent; then retry the instance, which waits again.",
  ],
};

const show = createRoute({
  method: "get",
  path: PROBLEMS_PATH,
  operationId: "explainProblems",
  summary: "Explain to people every problem a route or an instance may name",
  security: [],
  responses: { 200: { description: "A page", content: { "text/html": { schema: z.string() } } }, ...problems() },
});

export function problemsPage() {
  return new OpenAPIHono<ApiEnv>().openapi(show, (context) => answerHtml(context, "Problems · Millrace", content()));
}

function content() {
  const codes = Object.keys(PROBLEMS) as ProblemCode[];
  return html`<h1>Problems</h1>
<p>A refused request is answered with <code>application/problem+json</code>, whose <code>code</code> is one of these.
The error of an instance, an effect or a dead letter names the same codes, without the status.</p>
<dl>
${codes.map(row)}</dl>`;
}

function row(code: ProblemCode) {
  const [status, title, retryable] = PROBLEMS[code];
  const [means, next] = ADVICE[code];
  return html`<div id="${code}"><dt><code>${code}</code></dt><dd>${status}</dd><dd><b>${title}.</b> ${means}</dd><dd>${next}${
    retryable && " The same request may succeed later."
  }</dd></div>\n`;
}
