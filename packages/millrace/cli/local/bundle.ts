import { join, relative, sep } from "node:path";
import { builtConsole } from "./console.ts";
import { madeOnce } from "./made-once.ts";
import { ROOT, runNode } from "./wrangler.ts";

/**
 * Bundles the Worker of a configuration, unless the Worker's sources are unchanged. A later edit of the sources does not restart the
 * Worker. Returns the folder that contains the bundle and the options.
 */
export async function bundled(config: string): Promise<string> {
  await builtConsole();
  const [beside = "", ...below] = relative(ROOT, config).split(sep);
  const sources = ["src", "packages/millrace/src", beside, "package-lock.json"].map((name) => join(ROOT, name));
  // The name contains the whole path of the configuration, because two Workers may share a folder of sources.
  const named = ["bundle", ...below.slice(0, -1)].join("-");
  const folder = await madeOnce(named, sources, (making) => runNode(making, "bundle the Worker", [MAKE, config, join(making, "bundle")]));
  return join(folder, "bundle");
}

const MAKE = join(import.meta.dirname, "make-bundle.ts");
