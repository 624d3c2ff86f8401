// A process of its own, which writes beside a bundle how wrangler would run it by its configuration: to load wrangler takes most of a
// second, and it speaks of secrets that are not asked for.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { unstable_readConfig as readConfig, unstable_getMiniflareWorkerOptions as workerOptions } from "wrangler";
import { BUNDLE } from "./miniflare.ts";

const [config = "", bundle = ""] = process.argv.slice(2);
const read = readConfig({ config }, { hideWarnings: true });
const { rootPath: _, modulesRules: __, ...options } = workerOptions(read).workerOptions as Record<string, unknown>;
// Of the variables the configuration's own alone: what this checkout's .dev.vars hold is not for every engine.
writeFileSync(join(bundle, BUNDLE.options), JSON.stringify({ ...options, name: read.name, bindings: read.vars }));
