/** The scopes that this deployment adds to the engine's scopes. A token with `embedded` may control the embedded upstreams. */
export const OWN_SCOPES = ["embedded"] as const;

/**
 * The audit verbs that this deployment adds to the engine's verbs. They apply to a batch, a brand, a webhook, an article, a person, a
 * tenant, a budget, and the rules of charges.
 */
export const OWN_VERBS = [
  "cancel",
  "settings",
  "redeliver",
  "deliver",
  "register",
  "change",
  "enable",
  "delete",
  "rotate",
  "end_secret",
  "publish",
  "unpublish",
  "edit",
  "forget",
  "delete_tenant",
  "limit",
  "rules",
] as const;
