const PACKAGE = "millrace";

/** The files of a new Worker, but for its secrets and what `init` adds to every configuration. */
export function newWorker(name: string, versions: Versions): Record<string, string> {
  return {
    "package.json": `${JSON.stringify(
      {
        name,
        private: true,
        type: "module",
        scripts: { dev: "millrace dev", deploy: "millrace deploy", check: "tsc --noEmit" },
        dependencies: { hono: versions.hono, millrace: versions.millrace, zod: versions.zod },
        devDependencies: { "@cloudflare/workers-types": "^5", typescript: "^7", wrangler: "^4.156.0" },
      },
      null,
      2,
    )}\n`,
    "tsconfig.json": TSCONFIG,
    "wrangler.jsonc": `{
  "$schema": "node_modules/wrangler/config-schema.json",
  "name": "${name}",
  "main": "src/worker.ts",
  "compatibility_date": "2026-10-01"
}
`,
    "src/worker.ts": WORKER,
    "migrations/0001_greetings.sql": GREETINGS,
    ".gitignore": "node_modules\n",
  };
}

/** The versions of the packages that a Worker needs. */
export interface Versions {
  millrace: string;
  hono: string;
  zod: string;
}

const TSCONFIG = `{
  "compilerOptions": {
    "target": "es2024",
    "lib": ["es2024"],
    "module": "esnext",
    "moduleResolution": "bundler",
    "types": ["@cloudflare/workers-types"],
    "strict": true,
    "noEmit": true,
    "skipLibCheck": true
  },
  "include": ["src"]
}
`;

const WORKER = `import { defineWorkflow, millrace, now, sql } from "${PACKAGE}";
import * as z from "zod";

/** Greet each name once. */
export const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  async run({ input: { name }, step, envelope: { tenant_id } }) {
    const row = sql\`INSERT INTO greetings (tenant_id, name, at) VALUES (\${tenant_id}, \${name}, \${now})\`;
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
