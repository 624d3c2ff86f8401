import { createRequire } from "node:module";
import { WRANGLER } from "./wrangler.ts";

/** As far as they are used here. */
export interface Miniflare {
  ready: Promise<unknown>;
}
interface Package {
  Miniflare: new (options: object) => Miniflare;
  convertV4MiniflareOptions(options: object): object;
}

/** In the folder of a Worker's bundle: its first file, and the options that it runs with, as JSON. */
export const BUNDLE = { entry: "worker.js", options: "options.json" };

/** The package with which wrangler itself runs Workers. */
export const miniflare = (): Package => createRequire(WRANGLER)("miniflare");
