// A separate process that replays recorded runs with the code of the sources. The sources reach no network.
import { once } from "node:events";
import { scheduler } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { AnyWorkflow, Deployment, RunRecord, walkRecord as walk } from "../../src/check/walk.ts";
import { type CallBetween, watchCalls } from "./calls-between.ts";
import { standIn } from "./platform.ts";

interface Catalog extends Deployment {
  readonly workflows: readonly AnyWorkflow[];
}

/** Replays at the same time. */
const AT_ONCE = 20;

standIn();
const [asked] = (await once(process, "message")) as [{ bundle: string; records: RunRecord[]; vars: Record<string, unknown> }];
const calls = new Map<string, CallBetween>();
const between = watchCalls((call) => void calls.set(JSON.stringify(call), call));
Object.assign(globalThis, { scheduler: { wait: (ms: number) => scheduler.wait(ms) } });
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
