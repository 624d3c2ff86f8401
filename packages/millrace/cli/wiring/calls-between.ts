import { AsyncLocalStorage } from "node:async_hooks";
import nodeCrypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import type { Between, Code } from "../../src/check/between.ts";

/** A call between the steps of a workflow. Each replay repeats the call and gets another value. */
export type CallBetween = Readonly<Code> & { readonly call: string };

/**
 * Replaces the clock, the sources of random values and `fetch` of this process by functions that report calls between steps. Packages may
 * store these functions when they are loaded, so the replacement must precede the load.
 */
export function watchCalls(report: (call: CallBetween) => void): Between {
  const between: Between = new AsyncLocalStorage();
  const note = (call: string) => {
    const code = between.getStore();
    if (code !== undefined) report({ ...code, call });
  };
  const watch = (of: object, owner: string, ...names: string[]) => {
    const functions = of as Record<string, unknown>;
    for (const name of names) {
      const real = functions[name] as (...given: unknown[]) => unknown;
      functions[name] = function (this: unknown, ...given: unknown[]) {
        note(`${owner}.${name}()`);
        return real.apply(this, given);
      };
    }
  };
  watch(Date, "Date", "now");
  watch(performance, "performance", "now");
  watch(Math, "Math", "random");
  watch(crypto, "crypto", "randomUUID", "getRandomValues");
  watch(nodeCrypto, "crypto", "randomUUID", "randomBytes", "randomInt");
  syncBuiltinESMExports();
  const fetch = () => {
    note("fetch()");
    return new Promise(() => undefined);
  };
  Object.assign(globalThis, { Date: watchedDate(note), fetch });
  return between;
}

function watchedDate(note: (call: string) => void): DateConstructor {
  const watched = new Proxy(Date, {
    construct(real, given, made) {
      if (given.length === 0) note("new Date()");
      return Reflect.construct(real, given, made);
    },
    apply(real) {
      note("Date()");
      return real();
    },
  });
  Date.prototype.constructor = watched;
  return watched;
}
