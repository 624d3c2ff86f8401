import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

it("the batch demo imports a file through a kill of the whole engine, and proves that each row is there once", async () => {
  const args = ["src/cli/launch.js", "demo", "batch", "--exit", "--rows", "40000", "--kills", "1"];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGTERM"));
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(err).toBe("");
  expect(code, out).toBe(0);
  expect(out.match(/kill -9 at/g)).toHaveLength(1);
  expect(out).toContain("39,960 contacts, each written once (its revision is 1); 40 rows reported, by their lines.");
  expect(out).toContain("✓ No row was lost and none was written twice, through 1 kill.");
});
