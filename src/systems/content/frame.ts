import { escaped } from "./escape.ts";

/** The parts of an HTML document. All parts except `title` are HTML. */
interface Frame {
  title: string;
  head: string;
  body: string;
}

// The style sheet of a page. Long words break and long lines of code wrap, so that no page scrolls horizontally at any screen width.
const STYLE = `
  :root { color-scheme: light dark; --text: #1f1d1a; --quiet: #5f5a52; --link: #0b5d66; --paper: #fffdf8; --tint: #f4f0e6; --line: #e0dacd }
  @media (prefers-color-scheme: dark) {
    :root { --text: #e9e5dc; --quiet: #aea89c; --link: #83ccd4; --paper: #191816; --tint: #26241f; --line: #3d3931 }
  }
  body { max-width: 38rem; margin: clamp(1.5rem, 6vw, 4rem) auto; padding: 0 1.25rem; font: 1.125rem/1.65 Georgia, "Iowan Old Style", serif;
    color: var(--text); background: var(--paper); overflow-wrap: anywhere }
  h1, h2, h3, h4, h5, h6 { margin: 2.25rem 0 .5rem; font-size: 1.1rem; line-height: 1.25; text-wrap: balance }
  h1 { margin-top: .75rem; font-size: clamp(1.8rem, 7vw, 2.5rem); line-height: 1.15 } h2 { font-size: 1.4rem } h3 { font-size: 1.2rem }
  a { color: var(--link); text-underline-offset: .15em } :is(h1, h2) > a:not(:hover, :focus) { text-decoration: none }
  img { max-width: 100%; height: auto } hr { margin: 2.5rem 0; border: 0; border-top: 1px solid var(--line) }
  code, pre { font: .9em/1.5 ui-monospace, "SF Mono", Menlo, monospace; background: var(--tint); border-radius: 4px }
  code { padding: .1em .25em }
  pre { padding: 1rem; white-space: pre-wrap } pre code { padding: 0; font-size: 1em }
  blockquote { margin: 1.5rem 0; padding-inline-start: 1rem; border-inline-start: 3px solid var(--line);
    color: var(--quiet); font-style: italic }
  ul, ol { padding-inline-start: 1.5rem } li + li { margin-top: .25rem }
  header, footer, time { font: .875rem/1.6 system-ui, sans-serif; color: var(--quiet) }
  :is(header, footer) a { display: inline-block; padding: .25rem 0 }
  header { letter-spacing: .08em; text-transform: uppercase } h1 + p, h2 + p:has(time) { margin-top: 0 }
  main :is(h1, h2, h3, h4, h5, h6, p, li, blockquote) { unicode-bidi: plaintext; text-align: start }
  footer { margin-top: 4rem; border-top: 1px solid var(--line); padding-top: 1rem }`;

/** Renders a whole HTML document without external resources or scripts. */
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

/** Renders a date, with its machine-readable form in the attribute. */
export function dayElement(at: number): string {
  const day = new Date(at).toISOString().slice(0, 10);
  const words = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(at);
  return `<time datetime="${day}">${words}</time>`;
}

/** Renders the `link` element by which feed readers find a brand's feed. */
export function feedLink(brand: string, feed: string): string {
  return `<link rel="alternate" type="application/rss+xml" title="${escaped(brand)}" href="${escaped(feed)}">`;
}
