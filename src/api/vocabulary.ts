/** The scopes of this deployment's own routes, in addition to the engine's: `embedded` controls the embedded upstreams. */
export const OWN_SCOPES = ["embedded"] as const;

/**
 * The audit verbs of this deployment's own routes, in addition to the engine's: for a batch, a brand, a webhook, an article, a person, a
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
