import { randomBytes } from "node:crypto";
import type { Context } from "hono";
import { accepts } from "hono/accepts";
import { html, raw } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";
import * as z from "zod";
import { component, listOf } from "../../contract/row.ts";
import { operation } from "../operation.ts";
import { PROBLEMS_PATH } from "../problem.ts";
import { byStatus, type Problem, type Problems } from "../problems.ts";

const ExplainedSchema = component("ExplainedProblems", {
  items: listOf({
    code: z.string(),
    status: z.int(),
    title: z.string(),
    retryable: z.boolean(),
    meaning: z.string(),
    next: z.string().describe("The next step."),
  }),
});

export const problemsPage = operation("get", PROBLEMS_PATH, "explainProblems", undefined, {
  summary: "Get the reference of problem codes",
  security: [],
  description:
    "Returns an HTML page, or JSON if the request accepts `application/json`. It lists every code of a route, an instance, an effect or a dead letter.",
  answer: {
    200: { description: "All of them", content: { "text/html": { schema: z.string() }, "application/json": { schema: ExplainedSchema } } },
  },
  run({ context }) {
    context.header("vary", "accept");
    const type = accepts(context, { header: "Accept", supports: ["text/html", "application/json"], default: "text/html" });
    if (type === "text/html") return answerHtml(context, "Problems · Millrace", content(context.var.problems));
    const items = byStatus(context.var.problems).map(([code, problem]) => ({ code, retryable: false, ...problem }));
    return context.json({ items }, 200);
  },
});

function content(problems: Problems) {
  return html`<h1>Problems</h1>
<p>A refused request gets an answer of type <code>application/problem+json</code>. Its <code>code</code> is one of these.
Errors of instances, effects and dead letters have the same codes, without the status.</p>
<dl>
${byStatus(problems).map(row)}</dl>`;
}

function row([code, { status, title, retryable, meaning, next }]: [string, Problem]) {
  return html`<div id="${code}"><dt><code>${code}</code></dt><dd>${status}</dd><dd><b>${title}.</b> ${meaning}</dd><dd>${next}${
    retryable ? " The same request may succeed later." : ""
  }</dd></div>\n`;
}

const STYLE = `
  :root { color-scheme: light dark; --text: #1a2126; --quiet: #55626a; --link: #0b57a4; --paper: #fff; --tint: #f2f4f5; --line: #d8dde0 }
  @media (prefers-color-scheme: dark) {
    :root { --text: #e3e8ea; --quiet: #a3afb5; --link: #7db8f0; --paper: #14191c; --tint: #1f272b; --line: #364147 }
  }
  body { max-width: 44rem; margin: clamp(1.5rem, 6vw, 3.5rem) auto; padding: 0 1.25rem;
    font: 16px/1.55 system-ui, sans-serif; color: var(--text);
    background: var(--paper); overflow-wrap: anywhere }
  h1, h2 { line-height: 1.2; letter-spacing: -.01em }
  h1 { margin: 0 0 1rem; font-size: 2rem }
  h2 { margin: 3rem 0 .75rem; font-size: 1.3rem }
  a { color: var(--link); text-underline-offset: .15em } code, pre { font: .875rem/1.5 ui-monospace, "SF Mono", Menlo, monospace }
  pre { padding: 1rem; overflow-x: auto; background: var(--tint); border-radius: 8px }
  table { border-collapse: collapse; width: 100% }
  th, td { width: 50%; padding: .5rem 1rem .5rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
  th, dl dd:last-child { color: var(--quiet) } th { font-size: .875rem; font-weight: normal }
  dl > div { display: grid; grid-template-columns: 1fr auto; gap: .15rem 1rem;
    padding: .9rem .75rem; margin: 0 -.75rem; border-bottom: 1px solid var(--line) }
  dt code { font-weight: 600 } dd { margin: 0 } dd + dd { grid-column: 1 / -1 } :target { background: var(--tint) }`;

type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

/** Responds with a static HTML page. Its security policy allows only its own style, by a nonce. */
export function answerHtml(context: Context, title: string, content: Html) {
  const nonce = randomBytes(16).toString("base64");
  context.header(
    "content-security-policy",
    `default-src 'none'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  context.header("referrer-policy", "no-referrer");
  return context.html(
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style nonce="${nonce}">${raw(STYLE)}</style>
</head>
<body>
<main>
${content}
</main>
</body>
</html>`,
    200,
  );
}
