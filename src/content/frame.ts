import { escaped } from "./escape.ts";

/** One HTML document for people, from its parts. Everything but `title` is HTML already. */
interface Frame {
  title: string;
  head: string;
  body: string;
}

const STYLE = `
  body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font: 1.05rem/1.6 Georgia, serif; color: #1a1a1a; background: #fffdf8 }
  h1, h2 { line-height: 1.2 } a { color: #0b5d66 } img { max-width: 100% } pre { overflow-x: auto }
  header, footer, time { font: .85rem/1.6 system-ui, sans-serif; color: #595959 } header { letter-spacing: .08em; text-transform: uppercase }
  main :is(h1, h2, h3, p, li, blockquote, dd) { unicode-bidi: plaintext; text-align: start }
  footer { margin-top: 3rem; border-top: 1px solid #e4e0d6; padding-top: 1rem }`;

/** A whole document that loads nothing and runs nothing. */
export function htmlDocument({ title, head, body }: Frame): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
${head}
<style>${STYLE}
</style>
</head>
<body>
${body}
</body>
</html>
`;
}

/** A day for people and, in the attribute, for programs. */
export function dayElement(at: number): string {
  const day = new Date(at).toISOString().slice(0, 10);
  const words = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(at);
  return `<time datetime="${day}">${words}</time>`;
}

/** The line by which feed readers find a brand's feed. */
export function feedLink(brand: string, feed: string): string {
  return `<link rel="alternate" type="application/rss+xml" title="${escaped(brand)}" href="${escaped(feed)}">`;
}
