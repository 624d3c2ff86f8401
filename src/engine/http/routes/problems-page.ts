import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { html } from "hono/html";
import type { HttpEnv } from "../env.ts";
import { answerHtml } from "../page-html.ts";
import { PROBLEMS_PATH, problems } from "../problem.ts";
import { byStatus, type Problem, type Problems } from "../problems.ts";

const show = createRoute({
  method: "get",
  path: PROBLEMS_PATH,
  operationId: "explainProblems",
  summary: "Explain to people every problem a route or an instance may name",
  security: [],
  responses: { 200: { description: "A page", content: { "text/html": { schema: z.string() } } }, ...problems() },
});

export function problemsPage() {
  return new OpenAPIHono<HttpEnv>().openapi(show, (context) => answerHtml(context, "Problems · Millrace", content(context.var.problems)));
}

function content(problems: Problems) {
  return html`<h1>Problems</h1>
<p>A refused request is answered with <code>application/problem+json</code>, whose <code>code</code> is one of these.
The error of an instance, an effect or a dead letter names the same codes, without the status.</p>
<dl>
${byStatus(problems).map(row)}</dl>`;
}

function row([code, { status, title, retryable, means, next }]: [string, Problem]) {
  return html`<div id="${code}"><dt><code>${code}</code></dt><dd>${status}</dd><dd><b>${title}.</b> ${means}</dd><dd>${next}${
    retryable ? " The same request may succeed later." : ""
  }</dd></div>\n`;
}
