/** The answers to names of what is looked for that nothing has. */
export const NOT_FOUND_PROBLEMS = {
  alert_not_found: {
    status: 404,
    title: "No such alert",
    means: "No alert has this id, or it is removed by now.",
    next: "List them with GET /v1/alerts.",
  },
  correlation_not_found: {
    status: 404,
    title: "No such job",
    means: "Nothing of your tenant has this correlation id, or all of it is removed by now.",
    next: "Find it by another name with GET /v1/search, or ask for the key of one of its messages with GET /v1/keys/{key}.",
  },
  key_not_found: {
    status: 404,
    title: "Nobody holds this key",
    means: "No message of your tenant was taken under this key, and none was captured; or its tombstone is gone, too.",
    next: "Compare it with the idempotency_key of an instance: a key that derives from the payload is as its command derives it.",
  },
} as const;
