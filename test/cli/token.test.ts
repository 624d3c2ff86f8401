import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { authOption, insertToken, localToken } from "../../packages/millrace/cli/local/token.ts";
import { emptyFolder } from "./folder.ts";

it("a token is created once and used again", () => {
  const file = join(emptyFolder(), "token");
  const token = localToken(file);
  expect(token).toMatch(/^mr_[0-9a-f]{16}_[\w-]{43}$/);
  expect(readFileSync(file, "utf8")).toBe(`${token}\n`);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(localToken(file)).toBe(token);
});

it("a token file without a token is replaced", () => {
  const file = join(emptyFolder(), "token");
  writeFileSync(file, "mr_half");
  expect(localToken(file)).toMatch(/^mr_/);
});

it("the database stores a hash of the token, never the secret", () => {
  const token = localToken(join(emptyFolder(), "token"));
  const secret = token.slice("mr_0123456789abcdef_".length);
  const statement = insertToken(token);
  expect(statement).toContain(createHash("sha256").update(secret).digest("hex"));
  expect(statement).not.toContain(secret);
});

it("a token is moved to the given tenant, and remains there when no tenant is given", () => {
  const token = localToken(join(emptyFolder(), "token"));
  const database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE millrace_tokens (id TEXT PRIMARY KEY, hash, tenant_id, actor, scopes, created_at, expires_at)");
  const tenantAfter = (tenant?: string) => {
    database.exec(insertToken(token, tenant));
    return database.prepare("SELECT tenant_id FROM millrace_tokens").all();
  };
  expect(tenantAfter()).toEqual([{ tenant_id: "acme" }]);
  expect(tenantAfter("shop")).toEqual([{ tenant_id: "shop" }]);
  expect(tenantAfter()).toEqual([{ tenant_id: "shop" }]);
});

it("the printed command contains the token file's path, from the project's folder or absolute, and works in a shell", () => {
  expect(authOption(join(process.cwd(), ".millrace/token"))).toBe('-H "Authorization: Bearer $(cat .millrace/token)"');
  const folder = join(emptyFolder(), "ada's state");
  mkdirSync(folder);
  const file = join(folder, "token");
  const token = localToken(file);
  expect(authOption(file)).not.toContain(token);
  expect(execFileSync("sh", ["-c", `printf '%s\\n' ${authOption(file)}`], { encoding: "utf8" })).toBe(
    `-H\nAuthorization: Bearer ${token}\n`,
  );
});
