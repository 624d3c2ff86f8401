import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import spectral from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";

// Two linters, each with all the rules it recommends: node test/outside/tools/lint.ts < openapi.json says what they find.

/** The rules that are left out, and why. */
const LEFT_OUT = {
  redocly: {
    "no-path-trailing-slash": "A brand's index is a folder: its pages' relative links lead on from there.",
  },
  spectral: {
    "path-keys-no-trailing-slash": "As above.",
    "operation-description": "The summary says it; a description stands where there is more to say.",
    "oas3-operation-security-defined":
      "OpenAPI 3.1 lets a bearer's requirement name roles; the rule knows OAuth alone. Redocly looks whether each scheme is defined.",
    "info-contact": "Whom to ask is the operator of the deployment, whom the program does not know.",
  },
} satisfies Record<string, Record<string, string>>;

const document = await text(process.stdin);
const found = await Promise.all([redocly(), bySpectral()]);
console.log(JSON.stringify(found.flat()));

async function redocly(): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-lint-"));
  writeFileSync(join(folder, "openapi.json"), document);
  writeFileSync(join(folder, "redocly.yaml"), JSON.stringify({ extends: ["recommended"], rules: off(LEFT_OUT.redocly) }));
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
  return problems.map(({ ruleId, severity, message, location }) => `redocly ${severity} ${ruleId} ${location[0]?.pointer}: ${message}`);
}

async function bySpectral(): Promise<string[]> {
  const linter = new spectral.Spectral();
  linter.setRuleset({ extends: [[rulesets.oas, "recommended"]], rules: off(LEFT_OUT.spectral) } as never);
  const problems = await linter.run(JSON.parse(document));
  return problems.map(({ code, severity, message, path }) => `spectral ${severity} ${code} ${path.join("/")}: ${message}`);
}

function off(rules: Record<string, string>): Record<string, "off"> {
  return Object.fromEntries(Object.keys(rules).map((name) => [name, "off"]));
}
