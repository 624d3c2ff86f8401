import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    toolboxUrl: string;
  }
}

/**
 * Tools that need Node, for tests that run in workerd: POST /lint runs tools/lint.ts with the body as its input, and returns its output.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  const server = createServer(async (request, response) => {
    const tool = join(import.meta.dirname, "tools", `${request.url?.slice(1)}.ts`);
    const child = execFile(process.execPath, [tool], { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      response.writeHead(error ? 500 : 200, { "content-type": "application/json" });
      response.end(error ? `${stderr}${stdout}` : stdout);
    });
    child.stdin?.end(await text(request));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  project.provide("toolboxUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return () => void server.close();
}
