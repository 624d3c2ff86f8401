import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

it("the demo of derived facts shows charges, budgets and contacts, and that nothing changes when all comes twice", async () => {
  const began = Date.now();
  const child = spawn(process.execPath, ["src/cli/launch.js", "demo", "derived", "--exit"], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(err).toBe("");
  expect(code, out).toBe(0);
  expect(Date.now() - began).toBeLessThan(60_000);
  expect(out).toContain("charge    20.00  for sale-3, by “large sale”");
  expect(out).toContain("order-3 asks for 60.00: refused");
  expect(out).toContain("400 granted, 600 refused");
  expect(out).toContain("ann      is known as anna.smith");
  expect(out).toContain("No new fact, no new charge, no new hold.");
  expect(out).toContain("✓ Each outcome was charged once");
});
