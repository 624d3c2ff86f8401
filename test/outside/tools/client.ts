import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { json } from "node:stream/consumers";

// Two clients of the API, made by generators of two other people from nothing but the document: hey-api's, strict both ways by zod schemas
// for what is sent and for what is answered, and openapi-typescript's types under openapi-fetch. Then what the compiler says of both, and
// of the programs that use them, as strict as it can be. By hand: node test/outside/tools/client.ts < openapi.json

// Both print through TypeScript's JavaScript API, which the compiler that this repository uses does not have.
const printer = new URL("./typescript.ts", import.meta.url).href;
registerHooks({ resolve: (name, context, next) => (name === "typescript" ? { url: printer, shortCircuit: true } : next(name, context)) });

const root = join(import.meta.dirname, "../../..");
// Outside what is checked and committed: it is somebody else's code.
const output = join(root, "dist/outside");
mkdirSync(output, { recursive: true });

const document = (await json(process.stdin)) as Record<string, unknown>;
await Promise.all([heyApi(), openApiTypes()]);
// What hey-api puts beside its client cannot bear optional properties to be exact.
const found = await Promise.all(["tsconfig.json", "tsconfig.exact.json"].map(typeCheck));
console.log(JSON.stringify({ found: found.flat() }));

async function heyApi(): Promise<void> {
  const { createClient } = await import("@hey-api/openapi-ts");
  await createClient({
    // It writes into what it is given.
    input: structuredClone(document),
    output: join(output, "hey-api"),
    plugins: ["@hey-api/client-fetch", { name: "@hey-api/sdk", validator: true }, "zod"],
    logs: { level: "silent", file: false },
  });
}

async function openApiTypes(): Promise<void> {
  const { astToString, default: generate } = await import("openapi-typescript");
  writeFileSync(join(output, "paths.ts"), astToString(await generate(structuredClone(document) as never)));
}

/** A line for each thing that the compiler finds wrong. */
function typeCheck(project: string): Promise<string[]> {
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const args = [compiler, "--singleThreaded", "--project", join(import.meta.dirname, "../programs", project), "--pretty", "false"];
  return new Promise((resolve) =>
    execFile(process.execPath, args, { maxBuffer: 64e6 }, (error, stdout, stderr) =>
      resolve(error ? `${stdout}${stderr}`.trim().split("\n") : []),
    ),
  );
}
