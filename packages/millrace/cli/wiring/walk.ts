// A separate process that replays recorded runs with the code of the sources, and reports calls between their steps that each replay
// repeats. The sources reach no network.
import { AsyncLocalStorage } from "node:async_hooks";
import nodeCrypto from "node:crypto";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { scheduler } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { Between, Code } from "../../src/check/between.ts";
import type { AnyWorkflow, Deployment, RunRecord, walkRecord as walk } from "../../src/check/walk.ts";
import { standIn } from "./known.ts";

interface Catalog extends Deployment {
  readonly workflows: readonly AnyWorkflow[];
}

/** A call between the steps of a workflow. Each replay repeats the call and gets another value. */
export type CallBetween = Readonly<Code> & { readonly call: string };

/** Replays at the same time. */
const AT_ONCE = 20;

standIn();
const [asked] = (await once(process, "message")) as [{ bundle: string; records: RunRecord[]; vars: Record<string, unknown> }];
const between: Between = new AsyncLocalStorage();
const calls = new Map<string, CallBetween>();
const note = (call: string) => {
  const code = between.getStore();
  if (code) calls.set(JSON.stringify([code, call]), { ...code, call });
};
// Packages may store these functions when they are loaded, so the replacement precedes the load.
const watch = (owner: string, of: object, ...names: string[]) => {
  const functions = of as Record<string, unknown>;
  for (const name of names) {
    const real = functions[name] as (...given: unknown[]) => unknown;
    functions[name] = function (this: unknown, ...given: unknown[]) {
      note(`${owner}.${name}()`);
      return real.apply(this, given);
    };
  }
};
watch("Date", Date, "now");
watch("performance", performance, "now");
watch("Math", Math, "random");
watch("crypto", crypto, "randomUUID", "getRandomValues");
watch("crypto", nodeCrypto, "randomUUID", "randomBytes");
syncBuiltinESMExports();
Date.prototype.constructor = new Proxy(Date, {
  construct(real, given, made) {
    if (given.length === 0) note("new Date()");
    return Reflect.construct(real, given, made);
  },
});
Object.assign(globalThis, {
  Date: Date.prototype.constructor,
  scheduler: { wait: (ms: number) => scheduler.wait(ms) },
  fetch: () => {
    note("fetch()");
    return new Promise(() => undefined);
  },
});
const { worker, walkRecord } = (await import(pathToFileURL(asked.bundle).href)) as {
  worker: Record<string, unknown>;
  walkRecord: typeof walk;
};
const classes = Object.values(worker).filter((one) => typeof one === "function" && "catalog" in one) as { catalog?: Catalog }[];
const catalog = classes.find((one) => one.catalog !== undefined)?.catalog;
const walked: unknown[] = [];
const rest = [...asked.records];
const open: RunRecord[] = [];
/** Reports to the parent process that this process is active, and the names of the workflows in progress. */
const report = () => void process.send?.({ open: [...new Set(open.map(({ workflow }) => workflow))] });
setInterval(report, 1000);
const walkOn = async () => {
  for (let record = rest.shift(); record !== undefined; record = rest.shift()) {
    open.push(record);
    report();
    const definition = catalog?.workflows.find(({ name }) => name === record?.workflow);
    walked.push(await walkRecord(definition, catalog ?? { signalled: new Set() }, record, asked.vars, between));
    open.splice(open.indexOf(record), 1);
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, walkOn));
process.send?.({ walked, calls: [...calls.values()] }, () => process.exit());
