import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DefaultTheme, MarkdownOptions, UserConfig } from "vitepress";
import { openApiDocument } from "../document.ts";
import { documents, files, type Page, sections, summary } from "../pages.ts";
import { type OpenApi, referencePages, slug } from "../reference.ts";
import { searchBox } from "../search-box.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The folder of the pages that VitePress reads, generated from the repository's files. */
const PAGES = join(import.meta.dirname, "cache/pages");

/**
 * Options with which VitePress reads Markdown as GitHub does. VitePress must show HTML, attributes, names of emoji and Vue's braces as
 * plain text.
 */
const markdown: MarkdownOptions = {
  html: false,
  attrs: false,
  emoji: false,
  linkify: false,
  // Markdown from the OpenAPI document must not include files of this machine.
  include: false,
  snippet: false,
  anchor: { slugify: slug },
  theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  config: (md) => {
    for (const rule of ["text", "code_block"] as const) {
      const render = md.renderer.rules[rule];
      md.renderer.rules[rule] = (...all) => (render?.(...all) ?? "").replaceAll("{", "&#123;");
    }
    const fence = md.renderer.rules.fence;
    md.renderer.rules.fence = (tokens, at, ...rest) => {
      const shown = fence?.(tokens, at, ...rest) ?? "";
      if (tokens[at]?.info !== "mermaid") return shown;
      const heading = tokens.slice(0, at).findLastIndex(({ type }) => type === "heading_open");
      const words = tokens[heading + 1]?.children?.filter(({ type }) => type === "text" || type === "code_inline") ?? [];
      const label = `Diagram: ${words.map(({ content }) => content).join("")}`.trim();
      return `<Diagram label="${md.utils.escapeHtml(label)}">${shown}</Diagram>\n`;
    };
  },
};

export default async (): Promise<UserConfig<DefaultTheme.Config>> => {
  const own = documents();
  const api = referencePages(await documentOfApi());
  const nav = sections(own, api);
  const pages = [...own, ...api];
  const { title, description } = summary();
  writeTo(PAGES, pages);
  for (const file of files()) cpSync(join(ROOT, file), join(PAGES, file));

  return {
    title,
    description,
    lang: "en",
    srcDir: PAGES,
    cleanUrls: true,
    markdown,
    head: [["link", { rel: "icon", href: "data:," }]],
    vite: { plugins: [searchBox] },
    transformHead: ({ pageData, siteData }) => [
      ["link", { rel: "alternate", type: "text/markdown", href: `${siteData.base}${pageData.relativePath}` }],
    ],
    themeConfig: {
      search: { provider: "local" },
      outline: [2, 3],
      nav: [
        { text: "Documents", link: "/docs/" },
        { text: "HTTP API", link: "/api/" },
      ],
      sidebar: nav.map(({ name, pages }) => ({
        text: name,
        collapsed: name === "More",
        items: pages.map(({ page, children }) => ({
          ...linkTo(page),
          ...(children.length > 0 && { collapsed: true, items: children.map(linkTo) }),
        })),
      })),
      // The theme removes the last `.md` from the address of an edit link.
      editLink: { pattern: "/:path.md", text: "This page as Markdown" },
    },
    buildEnd({ outDir, site: { base } }) {
      writeTo(outDir, pages);
      for (const file of files()) cpSync(join(ROOT, file), join(outDir, file));
      const line = ({ path, title, about }: Page) => `- [${title}](${base}${path})${about ? `: ${about}` : ""}`;
      const parts = nav.map(({ name, pages }) => {
        const listed = pages.flatMap(({ page, children }) => [page, ...children]);
        return `## ${name === "More" ? "Optional" : name}\n\n${listed.map(line).join("\n")}`;
      });
      writeFileSync(join(outDir, "llms.txt"), `${[`# ${title}`, `> ${description}`, ...parts].join("\n\n")}\n`);
      const ordered = nav.flatMap(({ pages }) => pages.flatMap(({ page, children }) => [page, ...children]));
      writeFileSync(join(outDir, "llms-full.txt"), ordered.map(({ path, text }) => `Page: ${base}${path}\n\n${text}`).join("\n---\n\n"));
    },
  };
};

/** Reads the OpenAPI document from the file that MILLRACE_OPENAPI names. By default, returns the document of this repository's Worker. */
async function documentOfApi(): Promise<OpenApi> {
  const file = process.env.MILLRACE_OPENAPI;
  return file ? JSON.parse(readFileSync(file, "utf8")) : openApiDocument();
}

function linkTo({ title, path }: Page) {
  return { text: title, link: `/${path.replace(/(^|(?<=\/))index\.md$|\.md$/, "")}` };
}

/** Writes the pages as files to a folder. Before that, the function empties the folder if VitePress reads its pages from it. */
function writeTo(folder: string, pages: readonly Page[]): void {
  if (folder === PAGES) rmSync(folder, { recursive: true, force: true });
  for (const { path, text } of pages) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}
