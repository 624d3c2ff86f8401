import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { afterAll, beforeAll, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const PACKAGE = join(ROOT, "packages/millrace");

/** The strictest options that a user may have; the declarations of the package are checked, too. */
const STRICTEST = {
  ...{ target: "es2022", lib: ["es2023"], module: "esnext", moduleResolution: "bundler", types: ["@cloudflare/workers-types"] },
  ...{ strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true, noPropertyAccessFromIndexSignature: true },
  ...{ noUnusedLocals: true, noUncheckedIndexedAccess: true, noImplicitOverride: true, erasableSyntaxOnly: true },
  ...{ noImplicitReturns: true, verbatimModuleSyntax: true, isolatedModules: true },
};

let folder = "";
let files: string[] = [];
const installed = () => join(folder, "node_modules/millrace");

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-package-"));
  mkdirSync(installed(), { recursive: true });
  execFileSync(process.execPath, [join(PACKAGE, "build/package.ts"), join(installed(), "dist")], { stdio: "pipe" });
  for (const file of ["package.json", "millrace.js", "README.md", "migrations"])
    cpSync(join(PACKAGE, file), join(installed(), file), { recursive: true });
  files = readdirSync(installed(), { recursive: true, encoding: "utf8" });
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  for (const name of [
    ...Object.keys({ ...dependencies, ...peerDependencies }),
    "@cloudflare/workers-types",
    "@types/node",
    "undici-types",
  ]) {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name), "dir");
  }
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("the package has every file that its entry points and its command refer to, and none of the app", () => {
  const { exports, bin } = JSON.parse(readFileSync(join(installed(), "package.json"), "utf8"));
  const named = [...Object.values(exports as Record<string, string | Record<string, string>>), ...Object.values(bin)].flatMap((to) =>
    typeof to === "string" ? [to] : Object.values(to as Record<string, string>),
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((file) => !existsSync(join(installed(), file)))).toEqual([]);
  expect(files.filter((file) => /\.ts$/.test(file) && !file.endsWith(".d.ts"))).toEqual([]);
  expect(files.filter((file) => /(^|\/)(systems|embedded|providers|demo)\//.test(file))).toEqual([]);
});

it("a Worker that uses the package compiles with the strictest options, and without skipLibCheck", () => {
  cpSync(join(ROOT, "test/docs/own-worker/worker.ts"), join(folder, "worker.ts"));
  expect(compiled("worker.ts", STRICTEST)).toBe("");
});

it("the declarations of every entry point compile with the strictest options", () => {
  const { exports } = JSON.parse(readFileSync(join(installed(), "package.json"), "utf8"));
  const names = Object.keys(exports).filter((name) => !name.endsWith(".json"));
  expect(names).toHaveLength(13);
  const lines = names.map((name, at) => `export type * as entry${at} from "${join("millrace", name)}";\n`);
  writeFileSync(join(folder, "entries.ts"), lines.join(""));
  expect(compiled("entries.ts", STRICTEST)).toBe("");
});

it.each([
  ["MillraceOptions", "workflows"],
  ["WorkflowDefinition", "run"],
  ["FlowControl", "concurrency"],
  ["ApprovalRequest", "question"],
  ["LaneDefinition", "maxBytes"],
  ["CommandRequest", "command"],
])("the declarations have the comment of the option %s.%s", (type, option) => {
  const texts = files.filter((file) => file.endsWith(".d.ts")).map((file) => readFileSync(join(installed(), file), "utf8"));
  const [members = ""] = new RegExp(`interface ${type}\\b[^]*?\\n}`).exec(texts.join("\n")) ?? [];
  expect(members).toMatch(new RegExp(`\\*/\\n\\t(?:readonly )?${option}[?:(]`));
});

it("the packed package passes publint and attw, and is at most 600 KiB", async () => {
  const packed = execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], {
    cwd: installed(),
    encoding: "utf8",
  });
  const [{ filename, size, unpackedSize, entryCount }] = JSON.parse(packed);
  process.stdout.write(
    `The package: ${Math.round(size / 1024)} KiB packed, ${Math.round(unpackedSize / 1024)} KiB, ${entryCount} files.\n`,
  );
  expect((await publint({ pkgDir: installed(), strict: true })).messages).toEqual([]);
  const report = await checkPackage(createPackageFromTarballData(readFileSync(join(folder, filename))));
  // An ESM package: results of `require` and the resolution of Node 10 are ignored.
  const isLookedAt = (problem: object) => !("resolutionKind" in problem && /node10|cjs/.test(String(problem.resolutionKind)));
  expect("problems" in report ? report.problems.filter(isLookedAt) : "no types").toEqual([]);
  expect(size).toBeLessThanOrEqual(600 * 1024);
});

it.each([
  ["a browser", { lib: ["es2023", "dom"], types: [] }],
  ["Node", { lib: ["es2023"], types: ["node"] }],
  ["a Worker", {}],
])("a program for %s that uses the client compiles with the strictest options", (_, platform) => {
  const page = `
    import { ClientError, createClient, type Described } from "millrace/client";
    type Greet = Described<"greet", { name: string }, { said: string }>;
    const client = createClient<Greet>({ url: "https://engine.example", token: "mr_", fetch: (url, init) => fetch(url, init) });
    export async function greet(name: string): Promise<string> {
      try {
        const ended = await client.wait(await client.enqueue("greet", { name }));
        return ended.status === "complete" ? ended.result.said : (ended.error?.message ?? ended.status);
      } catch (error) {
        return error instanceof ClientError ? error.code : "unknown";
      }
    }
    // @ts-expect-error: the field is misspelt.
    export const wrong = () => client.enqueue("greet", { nmae: "Ada" });`;
  writeFileSync(join(folder, "page.ts"), page);
  expect(compiled("page.ts", { ...STRICTEST, ...platform })).toBe("");
});

/** The errors that the compiler prints for a file. */
function compiled(file: string, compilerOptions: object): string {
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }));
  const tsc = [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder];
  return spawnSync(process.execPath, tsc, { encoding: "utf8" }).stdout;
}
