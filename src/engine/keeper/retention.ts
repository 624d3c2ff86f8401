import type { EngineEnv } from "../contract/bindings.ts";
import { prune } from "./prune.ts";

/** What is removed when it has become old. */
export interface Retention {
  /** What it is about, for the log: a table, a bucket. */
  readonly name: string;
  /** Days that it stays. */
  readonly keepDays: number;
  /** Removes one slice of what is older than `keepMs`, small enough not to hold the database for long. Answers how much it removed: 0 when none is left. Safe to repeat. */
  readonly prune: (env: Cloudflare.Env, keepMs: number) => Promise<number>;
}

/** The engine's own. */
export const ENGINE_RETENTION: readonly Retention[] = [
  { name: "instances", keepDays: 30, prune: (env) => prune(env as unknown as EngineEnv) },
];
