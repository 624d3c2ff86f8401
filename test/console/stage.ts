import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect, inject, onTestFinished } from "vitest";
import { askerOf } from "../../packages/millrace/cli/api-client.ts";
import { useDatabase } from "../../packages/millrace/cli/local/database.ts";
import { signInLink } from "../../packages/millrace/cli/local/token.ts";
import { SCOPES } from "../../packages/millrace/cli/token/request.ts";
import { mintStatements } from "../../packages/millrace/cli/token/statements.ts";
import type { Place, StageParts } from "./global-setup.ts";

const DAY_MS = 86_400_000;

let connected: Promise<StageParts & { chrome: Browser }> | undefined;

/** The engine and the browser of all tests of the console. */
export async function stage() {
  connected ??= (async () => {
    const parts = await staged<StageParts>("/");
    return { ...parts, chrome: await chromium.connect(parts.browser) };
  })();
  return connected;
}

/** The engine of the console's tests, for tests that need no browser. */
export const app = () => staged<Place>("/");

/** The engine of test/console/shop, shared by all files: with lanes, unknown outcomes, locks and limits. */
export const shop = () => staged<Place>("/shop");

async function staged<Parts>(path: string): Promise<Parts> {
  const answer = await fetch(inject("consoleStageUrl") + path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json() as Promise<Parts>;
}

/** A user with a token, in a unique tenant. */
export interface Caller {
  tenant: string;
  token: string;
  url: string;
  /** Sends a request to the API, with the user's token. */
  ask: ReturnType<typeof askerOf>;
}

/** A user with a browser. */
export interface Person extends Caller {
  /**
   * Opens the console, signed in by a link, at a path below /console; every error of the page fails the test. `beside` opens another tab
   * of the same browser. `isKnown` is a browser that needs no link, because its requests are authenticated.
   */
  open(path?: string, options?: BrowserContextOptions & { beside?: Page; isKnown?: boolean }): Promise<Page>;
}

/**
 * Inserts rows that no HTTP request can create, such as a dead letter of a producer's own queue, into an engine's database; default: the
 * shared engine's.
 */
export async function inDatabase(write: (database: DatabaseSync) => void, at?: Place): Promise<void> {
  const { state } = at ?? (await stage());
  useDatabase(state, write);
}

/** The errors on a page that a test causes. */
const forgiven = new Map<Page, RegExp[]>();

interface Known {
  tenant?: string;
  scopes?: typeof SCOPES;
  endsInMs?: number;
}

/** A user of an engine, with a token that ends in a day, or in this number of milliseconds. */
export function caller(
  { url, state }: Place,
  { tenant = `t-${randomBytes(4).toString("hex")}`, scopes = SCOPES, endsInMs }: Known = {},
): Caller {
  const { token, sql } = mintStatements(
    { verb: "mint", tenant, actor: "ada", scopes: [...scopes], days: (endsInMs ?? DAY_MS) / DAY_MS, reason: "a test" },
    "test",
  );
  useDatabase(state, (database) => database.exec(`BEGIN IMMEDIATE; ${sql}; COMMIT`));
  return { tenant, token, url, ask: askerOf(url, token) };
}

/** A user of an engine, by default the shared one, who can open its console. */
export async function person({ at, ...known }: Known & { at?: Place } = {}): Promise<Person> {
  const { chrome, ...shared } = await stage();
  const one = caller(at ?? shared, known);
  const { url, token } = one;
  return {
    ...one,
    async open(path = "", { beside, isKnown = false, ...options } = {}) {
      const context = beside?.context() ?? (await chrome.newContext({ viewport: { width: 1280, height: 800 }, ...options }));
      context.setDefaultTimeout(30_000);
      const page = await context.newPage();
      const wrong: string[] = [];
      page.on("console", (said) => said.type() !== "error" || wrong.push(`console: ${said.text()}`));
      page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
      page.on("dialog", (dialog) => {
        wrong.push(`dialog: ${dialog.message()}`);
        return dialog.dismiss();
      });
      page.on("request", (request) => request.url().startsWith(url) || wrong.push(`request: ${request.url().slice(0, 200)}`));
      onTestFinished(async () => {
        await context.close();
        const kinds = forgiven.get(page) ?? [];
        expect(wrong.filter((one) => !kinds.some((kind) => kind.test(one)))).toEqual([]);
      });
      const link = isKnown ? `${url}/console#` : await signInLink(url, token);
      await page.goto(link.replace("/console#", `/console${path === "" ? "" : `/${path}`}#`));
      await page.getByRole("navigation", { name: "Screens" }).waitFor();
      return page;
    },
  };
}

/** Permits the errors on a page that a test causes: errors of this kind are ignored, also later ones of the browser. */
export function forgive(page: Page, kind: RegExp): void {
  forgiven.set(page, [...(forgiven.get(page) ?? []), kind]);
}

/** MILLRACE_SCREENSHOTS=folder stores a screenshot in this folder. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.MILLRACE_SCREENSHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name.replaceAll(/\W+/g, "-")}.png`) });
}
