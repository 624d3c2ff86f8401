import type { EngineEnv } from "../../contract/bindings.ts";
import type { Check, Checked, Divergence } from "../check.ts";

/** A check of the engine, which can use all bindings of the engine. */
interface EngineCheck extends Omit<Check, "kinds" | "slice"> {
  readonly kinds: Readonly<Record<string, { says: string; mend?: (env: EngineEnv, found: Divergence) => Promise<unknown> }>>;
  readonly slice: (env: EngineEnv, from: string | null) => Promise<Checked>;
}

export function engineCheck({ kinds, slice, ...check }: EngineCheck): Check {
  return {
    ...check,
    kinds: Object.fromEntries(
      Object.entries(kinds).map(([kind, { says, mend }]) => [
        kind,
        mend === undefined ? { says } : { says, mend: (env, found) => mend(env as unknown as EngineEnv, found) },
      ]),
    ),
    slice: (env, from) => slice(env as unknown as EngineEnv, from),
  };
}
