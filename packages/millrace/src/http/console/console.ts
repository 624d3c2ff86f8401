import { randomBytes } from "node:crypto";
import { type Context, Hono } from "hono";
import { html } from "hono/html";
import type { HttpEnv } from "../env.ts";
import { HttpRefusal } from "../problem.ts";
import { script, style } from "./built.js";

const CONSOLE_PATH = "/console";
const ASSETS = `${CONSOLE_PATH}/assets/`;

/** The page and files need no token, because they contain no data. Each screen has a URL with the same page. */
export function consolePage(): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  routes.get(`${ASSETS}*`, answerAsset);
  routes.get(`${CONSOLE_PATH}/*`, answerShell);
  return routes;
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='6' fill='none' stroke='%230b5cad' stroke-width='2'/%3E%3Cpath d='M8 2v12M2 8h12' stroke='%230b5cad' stroke-width='2'/%3E%3C/svg%3E";

/** A note that is visible only if the style is missing, because the style hides it. */
const NOT_DEPLOYED = "The console's files are not deployed with this Worker.";
const ASSETS_LINE = '"assets": { "directory": "node_modules/millrace/dist/assets" }';

const FILES = new Map([
  [script.name, ["text/javascript", script.text]],
  [style.name, ["text/css", style.text]],
] as const);

/** Serves the script or the style. The name of each file contains a digest of its content, so browsers cache the file forever. */
function answerAsset(context: Context<HttpEnv>): Response {
  const [type, text] = FILES.get(context.req.path.slice(ASSETS.length)) ?? [];
  if (type === undefined) throw new HttpRefusal("route_not_found", "The console was updated. Reload the page.");
  // The platform serves static assets before the Worker, so a request for an existing asset never reaches this code.
  if (text === undefined) throw new HttpRefusal("route_not_found", `${NOT_DEPLOYED} Add to wrangler.jsonc: ${ASSETS_LINE}.`);
  context.header("content-type", `${type}; charset=utf-8`);
  context.header("cache-control", "public, max-age=31536000, immutable");
  return context.body(text, 200);
}

/** An empty page that runs one script. Its policy forbids HTML from strings and requests to other origins. */
function answerShell(context: Context<HttpEnv>) {
  const nonce = randomBytes(16).toString("base64");
  context.header(
    "content-security-policy",
    [
      `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; img-src data:`,
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ].join("; "),
  );
  context.header("referrer-policy", "no-referrer");
  context.header("cross-origin-opener-policy", "same-origin");
  context.header("cache-control", "no-store");
  return context.html(
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Millrace</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" nonce="${nonce}" href="${ASSETS}${style.name}">
</head>
<body>
<div id="console"></div>
<p class="not-deployed">${NOT_DEPLOYED} Add to <code>wrangler.jsonc</code>: <code>${ASSETS_LINE}</code>;
or copy that folder into your assets.</p>
<noscript>The console needs JavaScript. The HTTP API offers the same operations.</noscript>
<script type="module" nonce="${nonce}" src="${ASSETS}${script.name}"></script>
</body>
</html>`,
    200,
  );
}
