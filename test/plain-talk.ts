// Loaded before a process loads miniflare, the package with which tests communicate with their runtimes.
import { registerHooks } from "node:module";

const PACKAGE = /\/miniflare\/dist\/src\/index\.js$/;
const SOCKET = {
  theirs: "new import_ws2.default(url53, protocols, {",
  plain: "new import_ws2.default(url53, protocols, { perMessageDeflate: false,",
};

/**
 * Messages between vitest and a runtime do not leave this machine: compression on both sides is disabled (measured: 6 % of a processor
 * over 793 tests of the app). A package with a different source text is an error.
 */
registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!PACKAGE.test(url) || !loaded.source) return loaded;
    const source = String(loaded.source);
    if (!source.includes(SOCKET.theirs)) throw new Error(`miniflare does not contain the text that ${import.meta.filename} replaces.`);
    return { ...loaded, source: source.replace(SOCKET.theirs, SOCKET.plain) };
  },
});
