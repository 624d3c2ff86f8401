// Node loads this file before it loads miniflare, the package with which wrangler runs Workers.
import { registerHooks } from "node:module";
import { besideOf } from "./doors.ts";

const PACKAGE = /\/miniflare\/dist\/src\/index\.js$/;

/**
 * Miniflare writes the configuration of the runtime, nine megabytes for this Worker, into a buffer that grows in steps of 4 KiB. Each step
 * copies the whole buffer. Without this change, the copies take half a second of processor time at each start. Larger steps avoid these
 * copies.
 */
const STEP = { theirs: "var MIN_SINGLE_SEGMENT_GROWTH = 4096;", larger: "var MIN_SINGLE_SEGMENT_GROWTH = 4194304;" };

/** Matches the function of miniflare that serializes the runtime's configuration, and captures the name of its parameter. */
const WRITES = /function serializeConfig\((\w+)\) \{/;
const TOGETHER = JSON.stringify(besideOf(import.meta.filename, "together"));

/** A version of miniflare whose source text does not match is loaded unchanged. */
registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!PACKAGE.test(url) || !loaded.source) return loaded;
    const source = String(loaded.source)
      .replace(STEP.theirs, STEP.larger)
      .replace(WRITES, (writes, told) => `${writes} require(${TOGETHER}).together(${told});`);
    return { ...loaded, source };
  },
});
