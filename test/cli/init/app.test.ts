import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { apiOf } from "../../../packages/millrace/cli/api-client.ts";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { builtPackage, userFolder } from "./installed.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

it("the app of this repository runs on the packed package: a keyword is researched, written, published and posted", async () => {
  const built = builtPackage();
  onTestFinished(built.remove);
  const listed = execFileSync("git", ["ls-files", "src", "migrations", "wrangler.jsonc", "package.json", ".dev.vars.example"], {
    cwd: ROOT,
  });
  const files = String(listed).trim().split("\n");
  const root = userFolder(built.folder, Object.fromEntries(files.map((file) => [file, readFileSync(join(ROOT, file), "utf8")])));
  for (const name of Object.keys(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).dependencies)) {
    const at = join(root, "node_modules", name);
    mkdirSync(dirname(at), { recursive: true });
    if (!existsSync(at)) symlinkSync(join(ROOT, "node_modules", name), at, "dir");
  }
  const port = await freePort();
  const child = spawn(process.execPath, [join(root, "node_modules/millrace/millrace.js"), "dev", "--port", String(port)], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
  });
  onTestFinished(async () => {
    if (child.exitCode !== null) return;
    child.kill("SIGINT");
    await once(child, "exit");
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  await vi.waitFor(() => expect(said).toContain("Stop   "), { timeout: 90_000, interval: 200 });
  const api = apiOf(`http://localhost:${port}`, readFileSync(join(root, ".millrace/token"), "utf8").trim());
  await api.enqueue([{ type: "research.requested", payload: { brand: "acme", keyword: "cold brew" }, correlation_id: "packed" }]);
  await vi.waitFor(
    async () => {
      const ended = (await api.instances("packed")).map(({ workflow, status }) => `${workflow} ${status}`).toSorted();
      expect(ended).toEqual(
        ["generate-article", "post-to-social", "publish-article", "research-keyword"].map((name) => `${name} complete`),
      );
    },
    { timeout: 60_000, interval: 500 },
  );
});
