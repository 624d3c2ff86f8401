export const NOT_FOUND_PROBLEMS = {
  alert_not_found: {
    status: 404,
    title: "No such alert",
    means: "No alert has this id, or it was removed.",
    next: "List them with GET /v1/alerts.",
  },
  correlation_not_found: {
    status: 404,
    title: "No such job",
    means: "No instance or message of your tenant has this correlation id, or all of them were removed.",
    next: "Search another name with GET /v1/search, or look up the key of one of its messages with GET /v1/keys/{key}.",
  },
  key_not_found: {
    status: 404,
    title: "The key has no holder",
    means: "No message of your tenant was accepted or captured with this key, or its tombstone was removed.",
    next: "Compare it with the idempotency_key of an instance. A derived key has the form that its command computes.",
  },
} as const;
