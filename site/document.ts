import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Plugin, runnerImport } from "vite";
import { sourceDoors } from "../packages/millrace/cli/local/doors.ts";
import type { OpenApi } from "./reference.ts";

/** Substitutes for the platform's modules. They export only the names that Node needs to load the routes. */
const PLATFORM = `class Base {}
  export { Base as DurableObject, Base as WorkerEntrypoint, Base as WorkflowEntrypoint };
  export const env = {}, exports = {}, waitUntil = () => undefined;`;

const inNode: Plugin = {
  name: "routes-in-node",
  enforce: "pre",
  // The console may not be built yet, and the OpenAPI document contains no route of the console.
  resolveId: (id) => (id.startsWith("cloudflare:") || id === "./built.js" ? `\0${id}` : undefined),
  load(id) {
    if (id.startsWith("\0cloudflare:")) return PLATFORM;
    if (id === "\0./built.js") return "export const script = {}, style = {};";
    return id.endsWith(".md") ? `export default ${JSON.stringify(readFileSync(id, "utf8"))};` : undefined;
  },
};

/** The OpenAPI document of the Worker. This process generates the document from the Worker's sources, without a server. */
export async function openApiDocument(): Promise<OpenApi> {
  const alias = Object.entries(sourceDoors()).map(([door, file]) => ({ find: new RegExp(`^${door}$`), replacement: file }));
  const { module } = await runnerImport<{ openApi(): Promise<OpenApi> }>(join(import.meta.dirname, "openapi.ts"), {
    configFile: false,
    logLevel: "error",
    plugins: [inNode],
    resolve: { alias },
  });
  return module.openApi();
}
