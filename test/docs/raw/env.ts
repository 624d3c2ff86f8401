/** The raw Worker's bindings. */
export interface RawEnv {
  DB: D1Database;
  CUSTOMER_COMMANDS: Queue;
  CUSTOMER_EVENTS: Queue;
  WELCOME_CUSTOMER: Workflow;
  DESK_URL: string;
  /** The callers, as JSON: `{ "<token>": { "tenantId": "…", "actor": "…" } }`. */
  TOKENS: string;
}
