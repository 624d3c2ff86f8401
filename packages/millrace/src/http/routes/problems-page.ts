import { accepts } from "hono/accepts";
import { html } from "hono/html";
import * as z from "zod";
import { operation } from "../operation.ts";
import { answerHtml } from "../page-html.ts";
import { PROBLEMS_PATH } from "../problem.ts";
import { byStatus, type Problem, type Problems } from "../problems.ts";

const ExplainedSchema = z
  .object({
    items: z.array(
      z.object({
        code: z.string(),
        status: z.int(),
        title: z.string(),
        retryable: z.boolean(),
        means: z.string(),
        next: z.string().meta({ description: "The next step." }),
      }),
    ),
  })
  .meta({ id: "ExplainedProblems" });

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

function row([code, { status, title, retryable, means, next }]: [string, Problem]) {
  return html`<div id="${code}"><dt><code>${code}</code></dt><dd>${status}</dd><dd><b>${title}.</b> ${means}</dd><dd>${next}${
    retryable ? " The same request may succeed later." : ""
  }</dd></div>\n`;
}
