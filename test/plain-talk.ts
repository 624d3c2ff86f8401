// Loaded before a process loads miniflare, the package with which tests talk to their runtimes.
import { registerHooks } from "node:module";

const PACKAGE = /\/miniflare\/dist\/src\/index\.js$/;
const SOCKET = {
  theirs: "new import_ws2.default(url53, protocols, {",
  plain: "new import_ws2.default(url53, protocols, { perMessageDeflate: false,",
};

/**
 * Messages between vitest and a runtime stay on this machine: compression on both sides is disabled (measured: a sixteenth of a
 * processor over 793 tests of the app). A package with another text is an error.
 */
registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!PACKAGE.test(url) || !loaded.source) return loaded;
    const source = String(loaded.source);
    if (!source.includes(SOCKET.theirs)) throw new Error(`miniflare has another text than the one that ${import.meta.filename} changes.`);
    return { ...loaded, source: source.replace(SOCKET.theirs, SOCKET.plain) };
  },
});
