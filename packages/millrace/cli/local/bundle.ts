import { join, relative, sep } from "node:path";
import { builtConsole } from "./console.ts";
import { madeOnce } from "./made-once.ts";
import { ROOT, runNode } from "./wrangler.ts";

/**
 * Bundles the Worker of a configuration, unless its sources are unchanged: a later edit does not restart it. Returns the folder of the
 * bundle and its options.
 */
export async function bundled(config: string): Promise<string> {
  await builtConsole();
  const [beside = "", ...below] = relative(ROOT, config).split(sep);
  const sources = ["src", "packages/millrace/src", beside, "package-lock.json"].map((name) => join(ROOT, name));
  // Two Workers may share a folder of sources.
  const named = ["bundle", ...below.slice(0, -1)].join("-");
  const folder = await madeOnce(named, sources, (making) => runNode(making, "bundle the Worker", [MAKE, config, join(making, "bundle")]));
  return join(folder, "bundle");
}

const MAKE = join(import.meta.dirname, "make-bundle.ts");
