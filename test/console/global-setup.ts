import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import type { TestProject } from "vitest/node";
import { askerOf } from "../../packages/millrace/cli/api-client.ts";
import { type Engine, startEngine } from "../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { serveChrome } from "../outside/tools/chrome.ts";

declare module "vitest" {
  interface ProvidedContext {
    /**
     * Returns, as JSON, the engine and browser of the console's tests, which the first request starts; `/shop` returns the engine of
     * test/console/shop.
     */
    consoleStageUrl: string;
  }
}

/** Further requests of the tests: calls of an upstream that contain this text are refused, or accepted again. */
export interface Break {
  upstream: "pages" | "search";
  match: string;
  isBroken: boolean;
}

/** An engine: its address, and the path of its database. */
export interface Place {
  url: string;
  state: string;
}

/** The engine and the browser that all files of the console's tests share. */
export interface StageParts extends Place {
  /** The engine's own token. */
  token: string;
  /** The address to connect to the browser. */
  browser: string;
  /** The users whom Cloudflare Access admits, and its assertion in each request. */
  access: { email: string; tenant: string; assertion: string };
}

/** Starts nothing until a test requests it: most runs of this project contain no console tests. */
export default async function setup(project: TestProject) {
  let started: Promise<StageParts> | undefined;
  let shop: Promise<Place> | undefined;
  const stops: (() => unknown)[] = [];
  const broken = new Map<string, Omit<Break, "isBroken">>();
  const access = await accessTeam();
  const server = createServer(async (request, response) => {
    if (request.url === "/certs") return void response.setHeader("content-type", "application/json").end(access.certs);
    // The faults of all files are stored here: the engine accepts only a complete list of faults.
    if (request.method === "POST") {
      const { upstream, match, isBroken } = (await json(request)) as Break;
      if (isBroken) broken.set(`${upstream} ${match}`, { upstream, match });
      else broken.delete(`${upstream} ${match}`);
      if (started) await setFaults(await started, [...broken.values()]);
      return void response.end();
    }
    const isShop = request.url === "/shop";
    if (isShop) shop ??= startShop(stops);
    else started ??= start(stops, access, url);
    const asked: Promise<Place> | undefined = isShop ? shop : started;
    const [status, body] = await Promise.resolve(asked).then(
      (parts) => [200, JSON.stringify(parts)] as const,
      (error: unknown) => [500, String(error)] as const,
    );
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  project.provide("consoleStageUrl", url);
  return async () => {
    server.close();
    for (const stop of stops) await stop();
  };
}

type Team = Awaited<ReturnType<typeof accessTeam>>;

/** A team of Cloudflare Access: its public key, and its assertion about its one user. */
async function accessTeam() {
  const [team, audience, kid] = ["acme-team", "a".repeat(64), "key-1"];
  const person = { email: "ada@example.com", tenant: "t-access" };
  const { publicKey, privateKey } = await generateKeyPair("RS256");
  const claims = new SignJWT({ email: person.email, type: "app" }).setProtectedHeader({ alg: "RS256", kid });
  const issued = claims.setIssuedAt().setIssuer(`https://${team}.cloudflareaccess.com`).setAudience([audience]);
  const grants = { [person.email]: { tenant: person.tenant, scopes: ["read", "operate", "tokens"] } };
  return {
    certs: JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid, alg: "RS256", use: "sig" }] }),
    known: { ...person, assertion: await issued.setExpirationTime("1h").sign(privateKey) },
    vars: { ACCESS_TEAM: team, ACCESS_AUD: audience, ACCESS_GRANTS: JSON.stringify(grants) },
  };
}

async function start(stops: (() => unknown)[], access: Team, url: string): Promise<StageParts> {
  const browser = await serveChrome();
  stops.push(() => browser.close());
  const vars = { EMBEDDED_CONTROL: "true", ...access.vars, ACCESS_CERTS_URL: `${url}/certs` };
  const { engine, state } = await startedEngine(stops, vars);
  return { url: engine.url, token: engine.token, state, browser: browser.wsEndpoint(), access: access.known };
}

async function startShop(stops: (() => unknown)[]): Promise<Place> {
  const { engine, state } = await startedEngine(stops, {}, join(import.meta.dirname, "shop/wrangler.jsonc"));
  return { url: engine.url, state };
}

function setFaults({ url, token }: StageParts, broken: readonly Omit<Break, "isBroken">[]): Promise<void> {
  return askerOf(url, token)(
    "PUT",
    "/embedded/faults",
    broken.map((one) => ({ ...one, status: 403, remaining: null })),
  );
}

async function startedEngine(
  stops: (() => unknown)[],
  vars: Record<string, string>,
  config?: string,
): Promise<{ engine: Engine; state: string }> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-console-"));
  stops.push(() => rmSync(folder, { recursive: true, force: true }));
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const engine = await startEngine({
    ...{ folder, port: await freePort(), secrets, vars: { MILLRACE_DEVELOPMENT: "true", ...vars } },
    ...(config !== undefined && { config }),
  });
  stops.unshift(() => engine.stop());
  return { engine, state: join(folder, "state") };
}
