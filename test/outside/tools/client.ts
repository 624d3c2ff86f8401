import { mkdirSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { json } from "node:stream/consumers";

// A client of the API, made by somebody else's generator from nothing but the document, strict both ways: zod schemas for what is sent and
// for what is answered. By hand: node test/outside/tools/client.ts < openapi.json

// The generator prints through TypeScript's JavaScript API, which the compiler that this repository uses does not have.
const printer = new URL("./typescript.ts", import.meta.url).href;
registerHooks({ resolve: (name, context, next) => (name === "typescript" ? { url: printer, shortCircuit: true } : next(name, context)) });

// Outside what is checked and committed: it is somebody else's code.
const output = join(import.meta.dirname, "../../../dist/outside-client");
mkdirSync(output, { recursive: true });
const { createClient } = await import("@hey-api/openapi-ts");
await createClient({
  input: (await json(process.stdin)) as Record<string, unknown>,
  output,
  plugins: ["@hey-api/client-fetch", { name: "@hey-api/sdk", validator: true }, "zod"],
  logs: { level: "silent", file: false },
});
console.log(JSON.stringify({ output }));
