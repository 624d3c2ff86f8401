import { join, relative, sep } from "node:path";
import { madeOnce } from "./made-once.ts";
import { ROOT, runWrangler } from "./wrangler.ts";

/**
 * Bundles the Worker of a config once for as long as its sources stay, so that editing them does not restart it. Answers what
 * `wrangler dev` is to be told to run that bundle.
 */
export async function bundled(config: string): Promise<string[]> {
  const [beside = "", ...below] = relative(ROOT, config).split(sep);
  const sources = ["src", beside, "package-lock.json"].map((name) => join(ROOT, name));
  // Two Workers may stand in one folder of sources.
  const folder = await madeOnce(["bundle", ...below.slice(0, -1)].join("-"), sources, (making) =>
    runWrangler(making, "bundle the Worker", ["deploy", "--dry-run", "--outdir", join(making, "bundle"), "--config", config]),
  );
  return [join(folder, "bundle", "worker.js"), "--no-bundle"];
}
