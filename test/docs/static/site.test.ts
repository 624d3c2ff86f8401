import { execFile } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { type BrowserServer, chromium, type Page } from "playwright-core";
import { type PreviewServer, preview } from "vite";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { openApiDocument } from "../../../site/document.ts";
import type { OpenApi } from "../../../site/reference.ts";
import { expectFit } from "../../console/look.ts";
import { serveChrome } from "../../outside/tools/chrome.ts";
import { fencesOf } from "../markdown.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "millrace-site-"));
const SITE = join(FOLDER, "site");
const BUILD = join(ROOT, "node_modules/vitepress/bin/vitepress.js");
/** A text that would become a picture, an element, a Vue expression and a table cell if it were not escaped. */
const HOSTILE = "Read <img src=x onerror=alert(1)> and <script>alert(1)</script> {{ 6 * 7 }} ![](http://x.example/a.png) a|b";
/** Code that would become a Vue expression, or the content of a file of this machine. */
const HOSTILE_CODE = ["{{ 42 }}", "<!-- @include: @/../../../../package.json -->"] as const;
/** A diagram that would contain HTML and a script, where its directive and its labels were followed. */
const HOSTILE_DIAGRAM = `%%{init: {"securityLevel": "loose", "htmlLabels": true, "flowchart": {"htmlLabels": true}}}%%
flowchart LR
  A["<img src=x onerror=alert(1)> {{ 6 * 7 }}"] --> B["<script>alert(1)</script> <b>bold</b>"]
  click A "javascript:alert(1)"
`;

let document: OpenApi;
let chrome: BrowserServer;
let server: PreviewServer;
let url: string;

const read = (path: string) => readFileSync(join(SITE, path), "utf8");
const found = (pattern: string) => globSync(pattern, { cwd: SITE, exclude: ["404.html"] }).toSorted();

beforeAll(async () => {
  document = await openApiDocument();
  const description = `${HOSTILE}\n\n- Code:\n\n      ${HOSTILE_CODE[0]}\n\nAnd \`${HOSTILE_CODE[1]}\`\n\n\`\`\`mermaid\n${HOSTILE_DIAGRAM}\`\`\``;
  const hostile = { summary: "Read a hostile text", description, tags: ["Locks"], security: [], responses: {} };
  const field = { type: "object", properties: { hostile: { type: "string", description: HOSTILE } } };
  document.paths["/v1/hostile"] = { post: { ...hostile, requestBody: { content: { "application/json": { schema: field } } } } };
  const file = join(FOLDER, "openapi.json");
  writeFileSync(file, JSON.stringify(document));
  const env = { ...process.env, NODE_ENV: "production", MILLRACE_OPENAPI: file };
  [chrome] = await Promise.all([
    serveChrome(),
    promisify(execFile)(process.execPath, [BUILD, "build", "site", "--outDir", SITE], { cwd: ROOT, env }),
  ]);
  const port = await freePort();
  server = await preview({
    configFile: false,
    root: FOLDER,
    build: { outDir: SITE },
    preview: { host: "localhost", port },
    logLevel: "error",
  });
  url = `http://localhost:${port}`;
}, 170_000);

afterAll(async () => {
  await Promise.all([server?.close(), chrome?.close()]);
  rmSync(FOLDER, { recursive: true, force: true });
});

/** The file that a URL of the site returns. */
function fileAt(path: string): string | undefined {
  const at = decodeURI(path).replace(/^\//, "");
  return [at, `${at}.html`, join(at, "index.html")].find((file) => existsSync(join(SITE, file)) && statSync(join(SITE, file)).isFile());
}

const plain = (html: string) =>
  html
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll(
      /&(#123|lt|gt|quot|amp);/g,
      (whole, name) => ({ "#123": "{", lt: "<", gt: ">", quot: '"', amp: "&" })[name as string] ?? whole,
    );

it("the site has a page for each document, and each link and picture of a page has an existing target", () => {
  const documents = globSync(["*.md", "docs/**/*.md", "examples/*/README.md"], { cwd: ROOT });
  expect(documents.length).toBeGreaterThan(90);
  for (const file of documents) expect(found("**/*.html")).toContain(file.replace(/README\.md$/, "index.md").replace(/md$/, "html"));
  const anchors = new Map(
    found("**/*.html").map((page) => [page, new Set([...read(page).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]),
  );
  const broken = found("**/*.html").flatMap((page) => {
    const links = [...read(page).matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, link = ""]) => plain(link));
    return links
      .filter((link) => !/^(?!https?:\/\/site\/)[a-z]+:/.test(link))
      .filter((link) => {
        const { pathname, hash } = new URL(link, `http://site/${page.replace(/(?<=^|\/)index\.html$|\.html$/, "")}`);
        const file = fileAt(pathname);
        return file === undefined || (hash !== "" && !anchors.get(file)?.has(decodeURIComponent(hash.slice(1))));
      })
      .map((link) => `${page}: ${link}`);
  });
  expect(broken).toEqual([]);
});

it("the site has a Markdown version of each page, and each of its links has an existing target", () => {
  expect(found("**/*.md")).toEqual(found("**/*.html").map((page) => page.replace(/html$/, "md")));
  const broken = found("**/*.md").flatMap((twin) => {
    const text = read(twin)
      .replaceAll(/^(`{3,})[\s\S]*?^\1$/gm, "")
      .replaceAll(/`[^`\n]*`/g, "");
    const links = [...text.matchAll(/(?<!\\)\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link.split("#")[0] ?? "");
    return links
      .filter((link) => link !== "" && !/^[a-z]+:/.test(link) && !existsSync(join(SITE, dirname(twin), link)))
      .map((link) => `${twin}: ${link}`);
  });
  expect(broken).toEqual([]);
  expect(found("**/*.md").filter((twin) => /^<!-- /m.test(read(twin)))).toEqual([]);
});

it("the site lists each page once in llms.txt, with its Markdown version, and contains all pages in llms-full.txt", () => {
  const text = read("llms.txt");
  expect(text).toMatch(/^# Millrace\n\n> Millrace [^\n`_[\]]+\.\n\n## Start\n/);
  expect([...text.matchAll(/^- \[[^\]]+\]\(\/([^)]+)\)/gm)].map(([, path = ""]) => path).toSorted()).toEqual(found("**/*.md"));
  const whole = read("llms-full.txt");
  expect(found("**/*.md").filter((twin) => !whole.includes(read(twin)))).toEqual([]);
});

it("the site's API reference has each operation of the OpenAPI document, with its fields and its example", () => {
  const pages = found("api/*.html").map(read).join("\n");
  const shown = new Set(
    [...pages.matchAll(/<p><code[^>]*>((?:GET|POST|PUT|DELETE|PATCH) [^<]+)<\/code><\/p>/g)].map(([, name = ""]) => plain(name)),
  );
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(operations.length).toBeGreaterThan(150);
  expect(operations.filter((operation) => !shown.has(operation))).toEqual([]);
  const commands = read("api/commands.md");
  expect(commands).toContain("A token with scope `enqueue`.");
  expect(commands).toContain('"type": "order.ship"');
  for (const name of Object.keys(document.components.schemas)) expect(read("api/schemas.html")).toContain(` id="${name.toLowerCase()}"`);
});

async function opened(path: string): Promise<Page> {
  const browser = await chromium.connect(chrome.wsEndpoint());
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const wrong: string[] = [];
  page.on("console", (said) => said.type() !== "error" || wrong.push(said.text()));
  page.on("pageerror", ({ message }) => wrong.push(message));
  page.on("request", (request) => request.url().startsWith(url) || wrong.push(request.url()));
  onTestFinished(async () => {
    await browser.close();
    expect(wrong).toEqual([]);
  });
  await page.goto(url + path);
  return page;
}

it("the site shows the texts of the OpenAPI document unchanged", async () => {
  const page = await opened("/api/locks");
  await page.getByRole("heading", { name: "Read a hostile text" }).waitFor();
  expect(await page.locator("main img, main script").count()).toBe(0);
  for (const place of ["p", "td"]) expect(await page.locator(`main ${place}`, { hasText: "Read <img" }).textContent()).toBe(HOSTILE);
  for (const code of HOSTILE_CODE) expect(await page.locator("main code", { hasText: code }).count()).toBe(1);
  const diagram = page.getByRole("img", { name: "Diagram: Read a hostile text" });
  await diagram.locator("svg").waitFor();
  expect(await diagram.textContent()).toContain("{{ 6 * 7 }}");
  expect(await diagram.locator("img, script, b, foreignObject, [onerror], [href^=javascript], [*|href^=javascript]").count()).toBe(0);
});

/** Each document with diagrams, and their sources. */
const drawn = globSync(["*.md", "docs/**/*.md", "examples/*/README.md"], { cwd: ROOT }).flatMap((file) => {
  const sources = fencesOf(readFileSync(join(ROOT, file), "utf8")).flatMap(({ language, text }) => (language === "mermaid" ? [text] : []));
  return sources.length === 0 ? [] : [{ path: `/${file.replace(/(README)?\.md$/, "")}`, sources }];
});

it("the site draws each diagram of each page, with the diagram's source below", async () => {
  const page = await opened("/");
  expect(drawn.length).toBeGreaterThan(25);
  for (const { path, sources } of drawn) {
    await page.goto(url + path);
    const pictures = page.locator(".diagram > [role=img]");
    for (const [at, source] of sources.entries()) {
      const svg = pictures.nth(at).locator("svg");
      await svg.waitFor().catch(() => expect.fail(`The site shows no picture of a diagram at ${path}:\n${source}`));
      expect(await svg.boundingBox()).toMatchObject({
        width: expect.toSatisfy((width) => width > 100),
        height: expect.toSatisfy((height) => height > 20),
      });
      expect(await pictures.nth(at).getAttribute("aria-label")).toMatch(/^Diagram: \w/);
    }
    expect(await pictures.count()).toBe(sources.length);
    const shown = await page.locator(".diagram code").allTextContents();
    expect(shown.map((text) => text.trim())).toEqual(sources.map((text) => text.trim()));
    expect(await page.locator(".diagram details[open]").count()).toBe(0);
  }
}, 120_000);

it("the site draws a diagram after a click on a link, and draws it again in another theme", async () => {
  const page = await opened("/docs/");
  await page.locator("main").getByRole("link", { name: "lanes", exact: true }).click();
  await page.getByRole("img", { name: "Diagram: Lanes" }).locator("svg").waitFor();
  const fill = () => page.evaluate("getComputedStyle(document.querySelector('.diagram .node rect')).fill");
  const light = await fill();
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(fill).not.toBe(light);
});

it("the site shows the source of a diagram in a browser without JavaScript", async () => {
  const browser = await chromium.connect(chrome.wsEndpoint());
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ javaScriptEnabled: false });
  await page.goto(`${url}/docs/lanes`);
  expect(await page.locator(".diagram code").isVisible()).toBe(true);
  expect(await page.locator(".diagram [role=img]").isVisible()).toBe(false);
});

it("the site's search finds pages and operations, without a request to another host, and a page links to its Markdown version", async () => {
  const page = await opened("/docs/lanes");
  await page.getByRole("link", { name: "This page as Markdown" }).click();
  await page.waitForURL(`${url}/docs/lanes.md`);
  await page.goBack();
  for (const [term, result, path] of [
    ["acknowledge the batch", "Acknowledge", /\/docs\//],
    ["break a held lock", "Break a", /\/api\/locks#break-a/],
  ] as const) {
    await page.getByRole("button", { name: "Search" }).first().click();
    await page.getByRole("combobox", { name: "Search" }).fill(term);
    await page.getByRole("option").filter({ hasText: result }).first().click();
    await page.waitForURL(path);
  }
});

it.each(["/", "/docs/write-a-chain", "/docs/console", "/api/", "/api/instances"])(
  "the site fits both widths and both themes at %s",
  async (path) => {
    await expectFit(await opened(path), `site${path}`);
  },
);

it("the site fits both widths and both themes with results of a search", async () => {
  const page = await opened("/");
  await page.getByRole("button", { name: "Search" }).first().click();
  await page.getByRole("combobox", { name: "Search" }).fill("retry");
  await page.getByRole("option").first().waitFor();
  await expectFit(page, "site-search");
});
