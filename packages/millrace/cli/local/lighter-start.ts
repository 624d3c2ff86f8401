// Loaded before a process loads miniflare, the package with which Workers run here.
import { registerHooks } from "node:module";
import { besideOf } from "./doors.ts";

const PACKAGE = /\/miniflare\/dist\/src\/index\.js$/;

/**
 * The package writes what it tells a runtime into a buffer, nine megabytes for this Worker. It grows by four kilobytes, and all of it is
 * copied each time: half a second of a processor at every start. In larger steps that is nothing.
 */
const STEP = { theirs: "var MIN_SINGLE_SEGMENT_GROWTH = 4096;", larger: "var MIN_SINGLE_SEGMENT_GROWTH = 4194304;" };

/** Where it is about to write that, and what comes first. */
const WRITES = /function serializeConfig\((\w+)\) \{/;
const TOGETHER = JSON.stringify(besideOf(import.meta.filename, "together"));

/** A package with another text is taken as it is. */
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
