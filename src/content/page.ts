import { micromark } from "micromark";
import type { Article } from "./articles.ts";

/** An article as an HTML page. The body is Markdown from a model: micromark escapes any HTML in it and refuses unsafe links. */
export function renderPage({ title, body, brand }: Article): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · ${escaped(brand)}</title>
<style>
  body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font: 1.05rem/1.6 Georgia, serif; color: #1a1a1a; background: #fffdf8 }
  h1, h2 { line-height: 1.2 } a { color: #0b5d66 } .brand { font: .85rem system-ui, sans-serif; letter-spacing: .08em; text-transform: uppercase; color: #666 }
</style>
<article>
<p class="brand">${escaped(brand)}</p>
<h1>${escaped(title)}</h1>
${micromark(body)}
</article>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
