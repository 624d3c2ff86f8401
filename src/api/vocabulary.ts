/** The scopes that this deployment's own routes ask for, beside the engine's: `embedded` holds the embedded upstreams by their faults. */
export const OWN_SCOPES = ["embedded"] as const;

/**
 * What people do by its own routes, as the audit says it, beside the engine's verbs: to a batch, a brand, a webhook, an article, a person,
 * a tenant, a budget, the rules of charges.
 */
export const OWN_VERBS = [
  "cancel",
  "settings",
  "redeliver",
  "register",
  "change",
  "enable",
  "delete",
  "rotate",
  "end_secret",
  "publish",
  "unpublish",
  "forget",
  "delete_tenant",
  "limit",
  "rules",
] as const;
