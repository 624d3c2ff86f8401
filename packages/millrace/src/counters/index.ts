// Entry point `millrace/counters`: sharded sums.

export { counterOf } from "./client.ts";
export { Counter } from "./counter.ts";
