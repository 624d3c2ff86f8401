import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

// A linter with all its recommended rules: node test/outside/tools/lint.ts < openapi.json prints its findings.

/** The disabled rules. A brand's index is a folder: its pages' relative links start from there. */
const LEFT_OUT = { "no-path-trailing-slash": "off" };

const document = await text(process.stdin);
console.log(JSON.stringify(await lint()));

async function lint(): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-lint-"));
  writeFileSync(join(folder, "openapi.json"), document);
  writeFileSync(join(folder, "redocly.yaml"), JSON.stringify({ extends: ["recommended"], rules: LEFT_OUT }));
  const program = join(createRequire(import.meta.url).resolve("@redocly/cli/package.json"), "../bin/cli.js");
  const args = [program, "lint", "openapi.json", "--format", "json", "--max-problems", "500"];
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const answer = await new Promise<string>((resolve) =>
    execFile(process.execPath, args, { cwd: folder, env, maxBuffer: 64e6 }, (_, stdout) => resolve(stdout)),
  );
  rmSync(folder, { recursive: true });
  const { problems } = JSON.parse(answer) as {
    problems: { ruleId: string; severity: string; message: string; location: { pointer?: string }[] }[];
  };
  return problems.map(({ ruleId, severity, message, location }) => `${severity} ${ruleId} ${location[0]?.pointer}: ${message}`);
}
