// Entry point `millrace/limits`: limits that many callers share.

export { type Limit, limitOf } from "./client.ts";
export { RateLimit } from "./rate-limit.ts";
export type { Window } from "./windows.ts";
