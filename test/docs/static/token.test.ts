import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { prepareDatabase, useDatabase } from "../../../packages/millrace/cli/local/database.ts";
import { localToken } from "../../../packages/millrace/cli/local/token.ts";
import { checkout } from "../../../packages/millrace/cli/project.ts";
import { type Mint, readRequest, SCOPES } from "../../../packages/millrace/cli/token/request.ts";
import { mintStatements, revokeStatements } from "../../../packages/millrace/cli/token/statements.ts";
import { SCOPES as KNOWN } from "../../../packages/millrace/src/access/tokens.ts";
import { OWN_SCOPES } from "../../../src/api/vocabulary.ts";
import { fencesOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const DAY_MS = 86_400_000;
const folder = mkdtempSync(join(tmpdir(), "millrace-docs-"));
const state = join(folder, "state");
afterAll(() => rmSync(folder, { recursive: true, force: true }));
await prepareDatabase(folder, checkout(), localToken(join(folder, "token")));

/** Runs a document's shell commands against this test's local database instead of the remote one. */
function run(script: string, ...args: string[]): string {
  const env = { ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`, MILLRACE_STATE: state };
  const options = { cwd: ROOT, env, encoding: "utf8", stdio: "pipe" } as const;
  return execFileSync("bash", ["-euo", "pipefail", "-c", script.replaceAll("--remote ", ""), "bash", ...args], options);
}

const token = (...args: string[]) => run(`npm run -s token -- "$@"`, ...args);
const rows = (sql: string) => useDatabase(state, (database) => database.prepare(sql).all());

it("the commands of docs/operating.md create a token, store its hash only, list it and audit it", () => {
  const operating = readFileSync(join(ROOT, "docs/operating.md"), "utf8");
  const mint = fencesOf(operating).find(({ comment }) => comment === "mint")?.text ?? "";
  const [made = "", ...list] = run(`${mint}\necho "$TOKEN"`).trim().split("\n").toReversed();
  const [, id, secret = ""] = /^mr_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/.exec(made) ?? [];
  const [row] = rows(`SELECT * FROM millrace_tokens WHERE id = '${id}'`) as { created_at: number; expires_at: number }[];
  expect({ ...row }).toEqual({
    id,
    hash: createHash("sha256").update(secret).digest("hex"),
    tenant_id: "acme",
    actor: "ada",
    scopes: "enqueue read operate tokens",
    created_at: expect.any(Number),
    expires_at: (row?.created_at ?? 0) + 90 * DAY_MS,
    minted_by: null,
    used_at: null,
    signed_in: 0,
  });
  expect(row?.created_at).toBeGreaterThan(Date.now() - 60_000);
  expect(list.at(-1)).toBe("id\tmade\tends\tlast use\tscopes\tactor");
  expect(list.some((line) => line.startsWith(`${id}\t`) && line.endsWith("never used\tenqueue read operate tokens\tada"))).toBe(true);
  expect(list.join()).not.toContain(secret);

  token("revoke", made, "--reason", 'she\'ll leave; -- "soon"');
  expect(rows(`SELECT * FROM millrace_tokens WHERE id = '${id}'`)).toEqual([]);
  expect(rows(`SELECT verb, reason, tenant_id, result FROM millrace_actions WHERE target = '${id}' ORDER BY at`)).toMatchObject([
    { verb: "mint", tenant_id: "acme", result: "applied" },
    { verb: "revoke", tenant_id: "acme", result: "applied", reason: 'she\'ll leave; -- "soon"' },
  ]);
  expect(() => token("revoke", made)).toThrow("There is no token");

  const [root, child, other] = [1, 2, 3].map(() => token("--tenant", "acme", "--actor", "ada").trim().slice(3, 19));
  useDatabase(state, (database) =>
    database.exec(`UPDATE millrace_tokens SET minted_by = '0000000000000000 ${root}' WHERE id = '${child}'`),
  );
  token("revoke", root ?? "", "--descendants", "--reason", "leaked");
  expect(rows(`SELECT id FROM millrace_tokens WHERE id IN ('${root}', '${child}', '${other}')`)).toMatchObject([{ id: other }]);

  // A deleted token still refers to its descendants.
  const orphan = token("--tenant", "acme", "--actor", "ada").trim().slice(3, 19);
  useDatabase(state, (database) => database.exec(`UPDATE millrace_tokens SET minted_by = '${root}' WHERE id = '${orphan}'`));
  expect(() => token("revoke", root ?? "", "--reason", "leaked")).toThrow("There is no token");
  token("revoke", root ?? "", "--descendants", "--reason", "leaked");
  expect(rows(`SELECT id FROM millrace_tokens WHERE id IN ('${orphan}', '${other}')`)).toMatchObject([{ id: other }]);
  expect(() => token("revoke", root ?? "", "--descendants")).toThrow("There is no token");
});

it("tokens for pull queues, and tokens with an app's own scopes, are created by the same command", () => {
  const made = token("--tenant", "acme", "--actor", "renderer", "--scopes", "pull", "--own-scopes", "gpu:fast").trim();
  expect(rows(`SELECT scopes FROM millrace_tokens WHERE id = '${made.slice(3, 19)}'`)).toMatchObject([{ scopes: "pull gpu:fast" }]);
});

it("wrangler, and so a deployed database, accepts the token statements unchanged, for any characters in a name", () => {
  const mint: Mint = { verb: "mint", tenant: "acme", actor: 'O\'Neil; "DROP" --', scopes: ["read"], days: 1, reason: "é" };
  const [made, gone] = [mintStatements(mint, "cli/ada"), mintStatements(mint, "cli/ada")];
  const [id, goneId] = [made.token.slice(3, 19), gone.token.slice(3, 19)];
  useDatabase(state, (database) => database.exec(gone.sql));
  const revoke = revokeStatements(goneId, { tenant: "acme", actor: mint.actor }, "cli/ada", { reason: "", descendants: false });
  // Runs in one command: several commands would each start a separate runtime.
  run('wrangler d1 execute DB --local --persist-to "$1" --yes --json --command "$2"', state, `${made.sql}; ${revoke}`);
  const results = rows(
    `SELECT t.actor, a.reason FROM millrace_tokens t JOIN millrace_actions a ON a.target = t.id WHERE t.id IN ('${id}', '${goneId}')`,
  );
  expect(results).toMatchObject([{ actor: mint.actor, reason: "é" }]);
  expect(rows(`SELECT verb FROM millrace_actions WHERE target = '${goneId}' ORDER BY at`)).toMatchObject([
    { verb: "mint" },
    { verb: "revoke" },
  ]);
});

it.each([
  ["--tenant", ["--actor", "ada"]],
  ["acme/x", ["--tenant", "acme/x", "--actor", "ada"]],
  ["--actor", ["--tenant", "acme"]],
  ["reed", ["--tenant", "acme", "--actor", "ada", "--scopes", "reed"]],
  ["--own-scopes", ["--tenant", "acme", "--actor", "ada", "--scopes", "gpu"]],
  ["GPU", ["--tenant", "acme", "--actor", "ada", "--own-scopes", "GPU"]],
  ["--days", ["--tenant", "acme", "--actor", "ada", "--days", "0"]],
  ["--forever", ["--tenant", "acme", "--forever"]],
  ["explode", ["explode"]],
  ["16 digits", ["revoke", "x"]],
])("an invalid value of a token command is refused before any change, with the correct form: %s", (word, args) => {
  expect(() => readRequest(args)).toThrow(word);
  expect(() => readRequest(args)).toThrow("Usage: npx millrace token");
});

it("a token is valid for 90 days, with the scopes enqueue, read and operate, by default; the command lists the valid scopes", () => {
  expect(readRequest(["--tenant", "acme", "--actor", "ada"])).toMatchObject({
    scopes: ["enqueue", "read", "operate"],
    days: 90,
    remote: false,
  });
  const wanted = (...args: string[]) => readRequest(["--tenant", "acme", "--actor", "ada", ...args]);
  expect(wanted("--own-scopes", "gpu,render:fast")).toMatchObject({ scopes: ["gpu", "render:fast"] });
  expect(wanted("--own-scopes", "gpu", "--scopes", "tokens,pull")).toMatchObject({ scopes: ["tokens", "pull", "gpu"] });
  expect(SCOPES.toSorted()).toEqual([...KNOWN, ...OWN_SCOPES].toSorted());
});
