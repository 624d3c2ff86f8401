import { engineProblems } from "millrace/http";

/** The problem codes of this deployment's own routes and steps, in addition to the engine's problem codes. */
const OWN = {
  page_not_found: {
    status: 404,
    title: "No such page",
    meaning: "No page is published under this path.",
    next: "Check the URL; an article's row has the URL of its page.",
  },
  ledger_not_found: {
    status: 404,
    title: "No such ledger",
    meaning: "Your tenant has no facts of this entity.",
    next: "List facts with GET /v1/facts; check the entity's spelling.",
  },
  rules_not_found: {
    status: 404,
    title: "No such version of the rules",
    meaning: "Your tenant's rules have no version of this number.",
    next: "List them with GET /v1/qualification-rules/versions.",
  },
  webhook_not_found: {
    status: 404,
    title: "No such webhook",
    meaning: "No webhook endpoint of your tenant has this id.",
    next: "List them with GET /v1/webhooks.",
  },
  delivery_not_found: {
    status: 404,
    title: "No such delivery",
    meaning: "This webhook endpoint has no delivery of this id.",
    next: "List them with GET /v1/webhooks/{id}/deliveries.",
  },
  batch_not_found: {
    status: 404,
    title: "No such batch",
    meaning: "No batch of your tenant has this id.",
    next: "List them with GET /v1/batches.",
  },
  file_not_found: {
    status: 404,
    title: "No such file",
    meaning: "The file is not in your tenant's folder of the bucket.",
    next: "Put it under files/{tenant}/, or send it as the body.",
  },
  brand_not_found: {
    status: 404,
    title: "No such brand",
    meaning: "Your tenant has no brand of this name.",
    next: "List them with GET /v1/brands; PUT /v1/brands/{brand} makes one.",
  },
  cycle_not_found: {
    status: 404,
    title: "No such cycle",
    meaning: "The brand has no cycle of this name, or it was deleted 90 days after its end.",
    next: "List them with GET /v1/brands/{brand}/cycles.",
  },
  research_not_found: {
    status: 404,
    title: "No such research",
    meaning: "No research of your tenant has this id.",
    next: "List it with GET /v1/research; an article names its research.",
  },
  article_not_found: {
    status: 404,
    title: "No such article",
    meaning: "No article of your tenant has this id.",
    next: "List them with GET /v1/articles.",
  },
  contact_not_found: {
    status: 404,
    title: "No such contact",
    meaning: "No contact of your tenant has this id.",
    next: "List them with GET /v1/contacts; a batch brings them in.",
  },
  sync_not_found: {
    status: 404,
    title: "No such sync",
    meaning: "No sync of your tenant has this id.",
    next: "List them with GET /v1/crm/syncs.",
  },
  revision_conflict: {
    status: 412,
    title: "The article has another revision",
    meaning: "The article was changed after the revision that the edit names.",
    next: "Read it with GET /v1/articles/{id}, then edit its current revision.",
  },
  length_required: {
    status: 411,
    title: "The length is missing",
    meaning: "A file came without its length.",
    next: "Send a Content-Length; curl does with --data-binary @file.",
  },
  answer_truncated: {
    status: 502,
    title: "A model's answer was cut off",
    meaning: "A model's answer was truncated. Its cost is recorded.",
    next: "Retry the instance: the request is repeated with twice the tokens, up to 32,768.",
  },
  answer_refused: {
    status: 502,
    title: "A model refused",
    meaning: "A model refused to write this. Its cost is recorded.",
    next: "Change the request, then retry the instance.",
  },
  answer_empty: {
    status: 502,
    title: "A model's answer was empty",
    meaning: "A model's answer contained no text. Its cost is recorded.",
    next: "Retry the instance; if it fails again, use another model.",
  },
  answer_malformed: {
    status: 502,
    title: "A model's answer has the wrong format",
    meaning: "A model's answer does not have the requested format. Its cost is recorded.",
    next: "Retry the instance; if it fails again, fix the prompt.",
  },
} as const;

/** All problem codes of this deployment. */
export const PROBLEMS = { ...engineProblems.all, ...OWN };
