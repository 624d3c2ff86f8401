import { beforeAll, describe, expect, it } from "vitest";
import { type Caller, callerWith, type Json, send } from "../api/client.ts";
import { askToPublish, draft, pathOf, publish, publishedDaily } from "../systems/content/article.ts";
import { standsAt, withTargets } from "../systems/content/targets.ts";
import { runTool } from "./toolbox.ts";

const ORIGIN = "http://localhost:8787";
/** The timeout of a browser on a busy machine. */
const PATIENCE_MS = 500_000;

/** Executes if it is interpreted as HTML: as an element, and as the end of an attribute. */
const HOSTILE = `<script>alert("ran")</script>"><img src="x" onerror="alert('ran')">`;
const LONG_WORD = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz".repeat(5);
const LONG_URL = `https://tea.example.com/${"leaf".repeat(80)}`;
const WIDE = `<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="200"><rect width="2000" height="200" fill="#8a9a5b"/></svg>`;

/** Every element of Markdown that a page renders. */
const WIDE_TEXT = `# ${HOSTILE} ${LONG_WORD}

${HOSTILE}

A long word: ${LONG_WORD}, \`${LONG_WORD}\`, <${LONG_URL}> and [a link](${LONG_URL}).

![A field of tea](/wide.svg)

# Another title

#

#### A heading that is four levels down

- one [](https://tea.example.com/nameless)
  - two ${LONG_URL}

> ${LONG_WORD}

    indented ${"code ".repeat(60)}

\`\`\`sh
curl ${LONG_URL} --data '${HOSTILE}'
\`\`\`

| leaf | ${"a column | ".repeat(30)}
| ---- | ${"-------- | ".repeat(30)}

1. first

---

[![](/wide.svg)](https://tea.example.com/picture)

##### Last
`;

const ARTICLE = `# How green tea is made

The leaves of *Camellia sinensis* are **heated soon after picking**, which keeps them from browning. What is left is their colour, and a taste of
[fresh grass](https://tea.example.com/grass).

## Water

Below eighty degrees, for two minutes. Hotter water takes out what is bitter:

1. Boil it.
2. Wait for five minutes.
3. Pour it over \`2 g\` of leaves.

> Tea began as a medicine and grew into a beverage.

## Shelf life

- a year, closed and dark
- a month, once opened
`;

interface Page {
  path: string;
  /** Text in the page once it is rendered. */
  shows: string;
  /** The caller whose token the page needs. The browser gets the response. */
  caller?: Caller;
}

describe("Every HTML page", () => {
  let document: Json;
  let pages: Record<string, Page>;
  let found: Record<string, string[]>;

  beforeAll(async () => {
    document = (await send("/openapi.json")).body;
    const caller = await callerWith();
    const ofTheEngine = {
      "the page at /": { path: "/", shows: "Workflows" },
      "the problems": { path: "/problems", shows: "rate_limited" },
    };
    pages = { ...(await ofBrands(caller)), ...ofTheEngine };
    found = await lookAt(pages);
  }, PATIENCE_MS);

  it("every kind of page error is found on a page that contains all of them", () => {
    for (const finding of [
      "dialog: ran",
      "console: oh",
      "request: https://elsewhere.example.com/x.png",
      /^320 px: sideways/,
      /^1280 px: sideways/,
      /^390 px, dark: html-has-lang/,
      /^1280 px, light: color-contrast, p/,
      /^390 px, dark: color-contrast, b/,
      /^1280 px, light: region/,
    ]) {
      expect(found["everything wrong"]).toContainEqual(typeof finding === "string" ? finding : expect.stringMatching(finding));
    }
    expect(found["the page with every error, under a Content-Security-Policy"]).toContainEqual(
      expect.stringMatching(/^console: .*Content Security Policy/),
    );
    expect(found["the page with every error, under a Content-Security-Policy"]).not.toContain("dialog: ran");
  });

  it.each([
    "the page at /",
    "the problems",
    "an article",
    "an article with every Markdown element",
    "an index",
    "an index with hostile titles",
    "an index's first page",
    "an index's last page",
    "an empty index",
    "an index of a second site",
    "a preview of a draft",
  ])("an HTML page is accessible at each width, in light and dark, and has no unintended behaviour: %s", (name) => {
    expect(found[name]).toEqual([]);
  });

  it("every HTML route is among the checked pages", () => {
    const described = Object.entries<Json>(document.paths)
      // The console is tested in test/console, with a running engine.
      .filter(([path, { get }]) => !path.startsWith("/console") && get?.responses[200]?.content?.["text/html"])
      .map(([path]) => new RegExp(`^${path.replace("{path}", ".+[^/]").replaceAll(/\{\w+\}/g, "[^/]+")}(\\?|$)`));
    const paths = Object.values(pages).map(({ path }) => path);
    expect(described.length).toBeGreaterThan(3);
    for (const route of described)
      expect(
        paths.filter((path) => route.test(path)),
        route.source,
      ).not.toEqual([]);
  });
});

async function ofBrands(caller: Caller): Promise<Record<string, Page>> {
  const index = (brand: string, tenantId = caller.tenantId) => `/pages/${tenantId}/${brand}/`;
  const [plain, wide] = [await draft(caller, { text: ARTICLE }), await draft(caller, { brand: "wide", keyword: HOSTILE, text: WIDE_TEXT })];
  const [{ url }, { url: wideUrl }] = [await publish(caller, plain), await publish(caller, wide)];
  await publishedDaily(caller.tenantId, "daily", 23);
  await publishedDaily(caller.tenantId, "gone", 1, "unpublished");
  await withTargets(caller, "two");
  const onTwo = await draft(caller, { brand: "two", text: ARTICLE });
  await askToPublish(caller, onTwo);
  await standsAt(caller, onTwo.id, { main: "published", shop: "published" });
  const unread = await draft(caller, { brand: "wide", keyword: HOSTILE, text: WIDE_TEXT });
  const [, older = ""] = /rel="next" href="([^"]+)"/.exec((await send(index("daily"))).body) ?? [];
  return {
    "an article": { path: pathOf(url), shows: "Below eighty degrees" },
    "an article with every Markdown element": { path: pathOf(wideUrl), shows: "Another title" },
    "an index": { path: index("acme"), shows: "How green tea is made" },
    "an index with hostile titles": { path: index("wide"), shows: "<script>" },
    "an index's first page": { path: index("daily"), shows: "Day 23" },
    "an index's last page": { path: pathOf(older), shows: "Newest" },
    "an empty index": { path: index("gone"), shows: "Nothing is published" },
    "an index of a second site": { path: `${index("two")}shop/`, shows: "How green tea is made" },
    "a preview of a draft": { path: `/v1/articles/${unread.id}/preview`, shows: "Another title", caller },
  };
}

/** A page with every error, which shows that the browser detects each: once unchanged, and once under a policy that prevents the worst. */
const WRONG = {
  visits: {
    "everything wrong": { path: "/lax", shows: "Hello" },
    "the page with every error, under a Content-Security-Policy": { path: "/strict", shows: "Hello" },
  },
  answers: { "/lax": wrong({}), "/strict": wrong({ "content-security-policy": "default-src 'self'; style-src 'unsafe-inline'" }) },
};

function wrong(headers: object): object {
  const body = `<!doctype html><html><head><style>p { color: #777; background: #fff } @media (prefers-color-scheme: dark) { b { background: #777 } }</style></head>
    <body><p>Hello <b style="color: #222">there</b></p><pre>${"wide ".repeat(200)}</pre><img src="https://elsewhere.example.com/x.png">
    <script>alert("ran"); console.error("oh")</script></body></html>`;
  return { status: 200, headers: { "content-type": "text/html", ...headers }, body };
}

/** Shows pages to a browser, as the Worker returns them, and in addition a page with every error. */
async function lookAt(pages: Record<string, Page>): Promise<Record<string, string[]>> {
  const svg = { status: 200, headers: { "content-type": "image/svg+xml" }, body: WIDE };
  const answers: Record<string, object> = { "/wide.svg": svg, ...WRONG.answers };
  for (const { path, caller } of Object.values(pages)) {
    const { status, headers, body } = await (caller ? caller.get(path) : send(path));
    expect(status, path).toBe(200);
    answers[path] = { status, headers: Object.fromEntries(headers), body };
  }
  const visits = Object.fromEntries(Object.entries(pages).map(([name, { path, shows }]) => [name, { path, shows }]));
  return runTool("look", { origin: ORIGIN, visits: { ...visits, ...WRONG.visits }, answers });
}
