import { createRequire } from "node:module";
import { WRANGLER } from "./wrangler.ts";

export interface Miniflare {
  ready: Promise<unknown>;
}
interface Package {
  Miniflare: new (options: object) => Miniflare;
  convertV4MiniflareOptions(options: object): object;
}

/** The names of the files in a bundle's folder: the entry module, and a JSON file with the options. */
export const BUNDLE = { entry: "worker.js", options: "options.json" };

export const miniflare = (): Package => createRequire(WRANGLER)("miniflare");
