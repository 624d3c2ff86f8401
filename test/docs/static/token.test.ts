import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { prepareDatabase } from "../../../src/cli/local/database.ts";
import { localToken } from "../../../src/cli/local/token.ts";
import { fencesOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const folder = mkdtempSync(join(tmpdir(), "millrace-docs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs shell commands of a document against a local database of this test's own, wherever they name the remote one. */
function run(script: string): string {
  const local = script.replaceAll("--remote", `--local --persist-to ${join(folder, "state")}`);
  const env = { ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`, CI: "1", WRANGLER_SEND_METRICS: "false" };
  return execFileSync("bash", ["-euo", "pipefail", "-c", local], { cwd: ROOT, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

it("the commands of docs/operating.md make a token and store its hash only", async () => {
  const operating = readFileSync(join(ROOT, "docs/operating.md"), "utf8");
  const mint = fencesOf(operating).find(({ comment }) => comment === "mint")?.text ?? "";
  await prepareDatabase(folder, join(ROOT, "wrangler.jsonc"), localToken(join(folder, "token")));
  const token = run(mint).trim().split("\n").at(-1) ?? "";
  const [, id, secret = ""] = /^mr_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/.exec(token) ?? [];

  const [{ results }] = JSON.parse(run(`npx wrangler d1 execute DB --remote --json --command 'SELECT * FROM tokens WHERE id = "${id}"'`));
  expect(results).toEqual([
    {
      id,
      hash: createHash("sha256").update(secret).digest("hex"),
      tenant_id: "acme",
      actor: "ada",
      scopes: "enqueue read operate",
      created_at: expect.any(Number),
      expires_at: expect.any(Number),
    },
  ]);
  expect(results[0].created_at).toBeGreaterThan(Date.now() - 60_000);
  expect(results[0].expires_at - results[0].created_at).toBe(90 * 24 * 60 * 60_000);
});
