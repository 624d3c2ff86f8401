import { createRequire } from "node:module";
import { WRANGLER } from "./wrangler.ts";

export interface Miniflare {
  ready: Promise<unknown>;
}
interface Package {
  Miniflare: new (options: object) => Miniflare;
  convertV4MiniflareOptions(options: object): object;
}

/** Files in the folder of a bundle: its entry, and its options as JSON. */
export const BUNDLE = { entry: "worker.js", options: "options.json" };

export const miniflare = (): Package => createRequire(WRANGLER)("miniflare");
