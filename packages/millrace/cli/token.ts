import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { cellOfToken } from "../src/contract/token.ts";
import { type Call, Refusal, runCommand } from "./command.ts";
import { useDatabase } from "./local/database.ts";
import { runningIn } from "./local/folder-lock.ts";
import { localToken, signInLink } from "./local/token.ts";
import { runWrangler, shown } from "./local/wrangler.ts";
import { wantsHelp } from "./options.ts";
import { cellsOf, DATABASE, findProject, type Project } from "./project.ts";
import { type Revoke, readRequest, USAGE, type Whose } from "./token/request.ts";
import { cellStatements, findStatement, listStatement, mintStatements, revokeStatements } from "./token/statements.ts";
import { configOf, readConfig } from "./wiring/config.ts";

type Row = Record<string, string | number | null>;

/**
 * `npx millrace token`: mints, lists and revokes tokens in a local or, with `--remote`, a deployed database. Prints a token or a sign-in
 * link on stdout, and all other text on stderr.
 */
async function token({ args }: Call): Promise<number> {
  if (wantsHelp(args)) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  const request = readRequest(args);
  const project = findProject({ config: request.config });
  if (request.verb === "link") {
    const running = runningIn(project.stateFolder);
    for (const { folder, url } of running) {
      if (running.length > 1) tell(`${shown(folder)}:`);
      process.stdout.write(`${await signInLink(url, localToken(join(folder, "token")))}\n`);
    }
    tell(`${running.length > 1 ? "Each" : "It"} signs in one browser, within 10 minutes.`);
    return 0;
  }
  const runIn = (cell: Project) =>
    request.remote || (request.config ?? request.persistTo) !== undefined
      ? throughWrangler(cell, request)
      : (sql: string) => locally(cell, sql);
  const cells = cellsOf(project);
  const number = request.verb === "revoke" ? cellOfToken(request.id) : await cellOfTenant(request.tenant, project, runIn(project));
  const cell = cells[number - 1];
  if (cell === undefined)
    throw new Refusal(`CELLS is ${cells.length}, so there is no cell ${number}: correct it in ${shown(project.config)}.`);
  const run = request.verb === "revoke" ? await runWithToken([cell, ...cells], request, runIn) : runIn(cell);
  const by = `cli/${userInfo().username}`;

  if (request.verb === "mint") {
    const { token, sql } = mintStatements(request, by, number);
    await run(sql);
    const { actor, tenant, scopes, days } = request;
    tell(`A token for ${actor} of ${tenant}: ${scopes.join(", ")}, for ${days} days. Save it: it is shown only once.`);
    process.stdout.write(`${token}\n`);
    return 0;
  }
  if (request.verb === "list") {
    process.stdout.write(`${HEADING}\n`);
    for (const row of await run(listStatement(request.tenant))) process.stdout.write(`${lineOf(row)}\n`);
    return 0;
  }
  const [found] = await run(findStatement(request));
  if (!found)
    throw new Refusal(
      `There is no token ${request.id}: it was revoked or never existed. List the tokens of a tenant: npx millrace token list --tenant …`,
    );
  const owner = { tenant: String(found.tenant_id), actor: found.actor === null ? null : String(found.actor) };
  await run(revokeStatements(request.id, owner, by, request));
  const also = request.descendants ? ", and all tokens minted with it" : "";
  const whose = owner.actor === null ? `which was already revoked, in ${owner.tenant}` : `of ${owner.actor} in ${owner.tenant}`;
  tell(`Revoked: ${request.id}, ${whose}${also}. If it was used just now, it may work for 30 more seconds.`);
  return 0;
}

/** The database with a token. The token of a tenant that has moved is in another cell than the token's id says. */
async function runWithToken(cells: readonly Project[], request: Revoke, runIn: (cell: Project) => (sql: string) => Promise<Row[]>) {
  for (const cell of cells) if ((await runIn(cell)(findStatement(request))).length > 0) return runIn(cell);
  return runIn(cells[0] as Project);
}

/** The number of a tenant's cell. The first use of a tenant chooses its cell. */
async function cellOfTenant(tenant: string, project: Project, run: (sql: string) => Promise<Row[]>): Promise<number> {
  if (cellsOf(project).length === 1) return 1;
  const { place, read } = cellStatements(tenant, configOf(readConfig(project.config), project.env)?.vars ?? {});
  await run(place);
  const [row] = await run(read);
  return Number(row?.cell ?? 1);
}

async function locally(project: Project, sql: string): Promise<Row[]> {
  // In tests, MILLRACE_STATE names the state folder of the test's own engine.
  const state = process.env.MILLRACE_STATE ?? join(project.stateFolder, "state");
  if (!existsSync(state))
    throw new Refusal("There is no local engine yet: start one with npx millrace dev. For a deployed one, add --remote.");
  const use = (database: DatabaseSync): Row[] => {
    if (sql.startsWith("SELECT")) return database.prepare(sql).all() as Row[];
    database.exec(`BEGIN IMMEDIATE; ${sql}; COMMIT`);
    return [];
  };
  return useDatabase(state, use, project);
}

function throughWrangler(project: Project, { remote, config, persistTo }: Whose): (sql: string) => Promise<Row[]> {
  const given = { "--config": config, "--persist-to": persistTo };
  const which = [
    remote ? "--remote" : "--local",
    ...Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
  ];
  return async (sql) => {
    const args = ["d1", "execute", project.database ?? DATABASE, ...which, "--yes", "--json", "--command", sql];
    const said = await runWrangler(project, project.stateFolder, `reach the ${remote ? "deployed" : "local"} database`, args).catch(
      (error: unknown) => {
        if (!(error instanceof Refusal && /no such table/.test(error.message))) throw error;
        throw new Refusal(`${error.message}. Apply its migrations first: npx millrace migrate${remote ? " --remote" : ""}`);
      },
    );
    const [first] = JSON.parse(said.slice(said.indexOf("["))) as { results: Row[] }[];
    return first?.results ?? [];
  };
}

/** Prints on stderr, because stdout may be redirected into a file. */
function tell(sentence: string): void {
  process.stderr.write(`${sentence}\n`);
}

const HEADING = ["id", "made", "ends", "last use", "scopes", "actor"].join("\t");

function lineOf({ id, actor, scopes, created_at, expires_at, last_used_at }: Row): string {
  const day = (at: unknown) => (at === null ? "never" : `${new Date(Number(at)).toISOString().slice(0, 16)}Z`);
  const over = expires_at !== null && Number(expires_at) <= Date.now();
  const used = last_used_at === null ? "never used" : `used ${day(last_used_at)}`;
  return [
    id,
    day(created_at),
    `${over ? "expired" : "expires"} ${day(expires_at)}`,
    used,
    JSON.parse(String(scopes)).join(" "),
    actor,
  ].join("\t");
}

await runCommand(token);
