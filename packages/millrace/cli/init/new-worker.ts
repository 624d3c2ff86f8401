import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { Refusal } from "../command.ts";
import { packageFolder } from "../local/doors.ts";
import { configIn } from "../wiring/config.ts";
import { type Edit, editOf } from "./beside.ts";
import { edited } from "./configuration.ts";
import { editJsonc } from "./jsonc.ts";
import { changesOf } from "./wanted.ts";

const PACKAGE = "millrace";
const NAME = /^[a-z0-9][a-z0-9-]{0,50}$/;

/** The files of a new Worker. Existing entries of package.json and tsconfig.json are not changed. */
export function newWorker(root: string, date: string): Edit[] {
  const name = basename(root).toLowerCase();
  if (!NAME.test(name))
    throw new Refusal(`"${name}" cannot be the name of a Worker: it takes a-z, 0-9 and "-". Name a folder: npx millrace init my-worker`);
  const configuration = `{
  "$schema": "node_modules/wrangler/config-schema.json",
  "name": "${name}",
  "main": "src/worker.ts",
  "compatibility_date": "${date}",
  // Optional: halves the size of the upload.
  "minify": true,
  "keep_names": false
}
`;
  const file = join(root, "wrangler.jsonc");
  const changes = changesOf(configIn(file, configuration), { name, env: undefined, secrets: [] });
  const files = {
    "wrangler.jsonc": edited(file, configuration, changes).text,
    "src/worker.ts": WORKER,
    "migrations/0001_greetings.sql": GREETINGS,
  };
  return [
    editOf(join(root, "package.json"), (text) => manifest(text, name, root)),
    editOf(join(root, "tsconfig.json"), (text) => text || TSCONFIG),
    ...Object.entries(files).map(([path, text]) => editOf(join(root, path), () => text)),
  ];
}

function manifest(text: string, name: string, root: string): string {
  const { peerDependencies } = manifestOfPackage();
  const wanted = {
    scripts: { dev: "millrace dev", deploy: "millrace deploy", check: "wrangler types --include-runtime false && tsc --noEmit" },
    dependencies: { hono: peerDependencies.hono, millrace: packageSpec(root), zod: peerDependencies.zod },
    devDependencies: { "@cloudflare/workers-types": "^5", typescript: "^7", wrangler: "^4.156.0" },
  };
  if (text.trim() === "") return `${JSON.stringify({ name, private: true, type: "module", ...wanted }, null, 2)}\n`;
  const own = manifestIn(text, join(root, "package.json"));
  const has = (key: string) => own.dependencies?.[key] ?? own.devDependencies?.[key];
  const missing = Object.entries(wanted).flatMap(([section, entries]) =>
    Object.entries(entries)
      .filter(([key]) => (section === "scripts" ? own.scripts?.[key] : has(key)) === undefined)
      .map(([key, value]) => ({ path: [section, key], value })),
  );
  return editJsonc(text, [...(own.type === undefined ? [{ path: ["type"], value: "module" }] : []), ...missing]);
}

const manifestOfPackage = () => JSON.parse(readFileSync(join(packageFolder(), "package.json"), "utf8"));

interface Manifest {
  type?: string;
  scripts?: Record<string, string>;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

function manifestIn(text: string, file: string): Manifest {
  try {
    return JSON.parse(text) as Manifest;
  } catch (error) {
    throw new Refusal(`${file} is not JSON: ${error instanceof Error ? error.message : error}. Correct it, and run init again.`);
  }
}

/** Resolves the symbolic links in a path. The last folders of the path may not exist yet. */
const realOf = (path: string): string => (existsSync(path) ? realpathSync(path) : join(realOf(dirname(path)), basename(path)));

/** The name of the tarball that `npm pack` creates if this package is a clone of the repository. Undefined if the package is installed. */
export function tarball(): string | undefined {
  const [{ version }, isClone] = [manifestOfPackage(), existsSync(join(packageFolder(), "src"))];
  return isClone ? `${PACKAGE}-${version}.tgz` : undefined;
}

/**
 * The version of millrace for a package.json in `root`. It is the tarball if this package is a clone, the version in the project that runs
 * this package, or this package's folder.
 */
export function packageSpec(root: string): string {
  const packed = tarball();
  if (packed !== undefined) return `file:${packed}`;
  const installed = packageFolder();
  const pathOf = (file: string) => `file:${relative(realOf(root), realOf(file)).replaceAll("\\", "/")}`;
  for (let folder = dirname(installed); folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, "package.json");
    if (!existsSync(file)) continue;
    const { dependencies, devDependencies } = manifestIn(readFileSync(file, "utf8"), file);
    const spec = dependencies?.[PACKAGE] ?? devDependencies?.[PACKAGE];
    if (spec === undefined) continue;
    const path = /^(?:file:|link:|(?=\.{0,2}\/))(.*)$/.exec(spec)?.[1];
    if (path === undefined) return spec;
    if (existsSync(resolve(folder, path))) return pathOf(resolve(folder, path));
  }
  return pathOf(installed);
}

const TSCONFIG = `{
  "compilerOptions": {
    "target": "es2024",
    "lib": ["es2024"],
    "module": "esnext",
    "moduleResolution": "bundler",
    "allowImportingTsExtensions": true,
    "types": ["@cloudflare/workers-types"],
    "strict": true,
    "noEmit": true,
    "skipLibCheck": true
  },
  "include": ["src", "worker-configuration.d.ts"]
}
`;

const WORKER = `import { defineWorkflow, millrace, sql } from "${PACKAGE}";
import * as z from "zod";

/** Greet each name once. */
export const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  async run({ input: { name }, step, envelope: { tenant_id } }) {
    const row = sql\`INSERT INTO greetings (tenant_id, name, at) VALUES (\${tenant_id}, \${name}, \${sql.now})\`;
    await step.commit("write it down", () => ({ statements: [row] }));
    return { said: \`Good morning, \${name}.\` };
  },
});

export const { catalog, handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });
export default handler;
`;

const GREETINGS = `CREATE TABLE greetings (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
`;
