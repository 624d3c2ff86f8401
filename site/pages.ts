import { globSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
/** The Markdown documents of the repository that become pages of the site. */
const DOCUMENTS = ["*.md", "docs/**/*.md", "{examples/*,findings,test}/README.md"];

/** A page of the site: a document of the repository, or a page that is generated from the OpenAPI document. */
export interface Page {
  /** The path of the page in the site: `docs/queues.md`; `index.md` is the path of a README.md. */
  readonly path: string;
  readonly title: string;
  /** The reader's task or question, in one line. The text is empty if docs/README.md does not list the page. */
  readonly about: string;
  readonly text: string;
}

/** A section of the site's navigation. */
export interface Section {
  readonly name: string;
  readonly pages: readonly { page: Page; children: readonly Page[] }[];
}

/** Returns the documents of the repository as pages, in alphabetical order. */
export function documents(): Page[] {
  const about = tasks();
  return globSync(DOCUMENTS, { cwd: ROOT })
    .toSorted()
    .map((file) => {
      const text = read(file);
      const title = /^# (.+)$/m.exec(text)?.[1]?.replaceAll("`", "") ?? file;
      return { path: placeOf(file), title, about: about.find((task) => task.file === file)?.about ?? "", text: withLinks(text, file) };
    });
}

/**
 * Returns the sections of the site in this order: the sections of docs/README.md, the API, and all pages that no table names. Each page is
 * in one section only.
 */
export function sections(documents: readonly Page[], api: readonly Page[]): Section[] {
  const left = new Map(documents.map((page) => [page.path, page]));
  const take = (path: string) => {
    const page = left.get(path);
    left.delete(path);
    return page ? [page] : [];
  };
  const named = Map.groupBy(tasks(), ({ section }) => section);
  const own = [...named].map(([name, tasks]) => ({
    name,
    pages: tasks
      .flatMap(({ file }) => take(placeOf(file)))
      .map((page) => ({
        page,
        children:
          page.path === "docs/decisions/index.md"
            ? documents.filter(({ path }) => /^docs\/decisions\/\d/.test(path)).flatMap(({ path }) => take(path))
            : [],
      })),
  }));
  const [index, ...parts] = api;
  return [
    ...own,
    { name: "Reference", pages: index ? [{ page: index, children: parts }] : [] },
    { name: "More", pages: [...left.values()].map((page) => ({ page, children: [] })) },
  ];
}

/** Returns the rows of the tables in docs/README.md: each task with the pages for the task. */
function tasks(): { section: string; about: string; file: string }[] {
  const [, ...parts] = read("docs/README.md").split(/^## /m);
  return parts.flatMap((part) => {
    const section = part.split("\n", 1)[0] ?? "";
    const rows = [...part.matchAll(/^\| (.+?) +\| (.+?) +\|$/gm)];
    return rows.flatMap(([, about = "", links = ""]) =>
      [...links.matchAll(/\]\(([^)#]+)/g)].map(([, link = ""]) => ({ section, about, file: join("docs", link) })),
    );
  });
}

/** Lists the site's files besides the pages: pictures, and files that pages link to, such as configurations. */
export function files(): string[] {
  return globSync("docs/**/*", { cwd: ROOT }).filter((file) => !file.endsWith(".md") && statSync(join(ROOT, file)).isFile());
}

function placeOf(file: string): string {
  return basename(file) === "README.md" ? join(dirname(file), "index.md") : file;
}

/**
 * Returns a document without comments, with links that work in the site. A link to a file that the site does not have leads to the
 * repository that package.json names. If package.json names no repository, the link becomes its text and the path.
 */
function withLinks(text: string, file: string): string {
  const pages = new Set(globSync(DOCUMENTS, { cwd: ROOT }));
  const held = new Set(files());
  const repository = repositoryOf();
  return outsideCode(text, (part) =>
    part
      .replaceAll(/^<!-- .* -->\n/gm, "")
      .replaceAll(/(!?)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)/g, (whole, image, words: string, target: string) => {
        if (/^[a-z]+:|^#/.test(target)) return whole;
        const [path = "", anchor] = target.split("#");
        const at = join(dirname(file), path).replace(/\/$/, "");
        if (pages.has(at)) return `[${words}](${path.replace(/README\.md$/, "index.md")}${anchor === undefined ? "" : `#${anchor}`})`;
        if (image || held.has(at)) return whole;
        const folder = pages.has(join(at, "README.md"));
        if (folder) return `[${words}](${join(path, "index.md")})`;
        if (repository) return `[${words}](${repository}/blob/HEAD/${at})`;
        const inside = words.replaceAll("`", "");
        return inside.includes(basename(at)) ? words : `${words} (\`${at}\`)`;
      }),
  );
}

/** Changes the parts of a Markdown text that are not in fences. */
function outsideCode(text: string, change: (part: string) => string): string {
  const parts = text.split(/(^```[\s\S]*?^```$)/m);
  return parts.map((part, index) => (index % 2 === 1 ? part : change(part))).join("");
}

function repositoryOf(): string | undefined {
  const { repository } = JSON.parse(read("package.json")) as { repository?: string | { url: string } };
  const url = typeof repository === "string" ? repository : repository?.url;
  return url?.replace(/^git\+/, "").replace(/\.git$/, "");
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

/** Returns the site's title and summary, from README.md, without Markdown syntax. */
export function summary(): { title: string; description: string } {
  const [, title = "", paragraph = ""] = /^# (.+)\n\n([\s\S]+?)\n\n/.exec(read("README.md")) ?? [];
  const words = paragraph.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/\b_|_\b|[*`]/g, "");
  return { title, description: words.replaceAll("\n", " ") };
}
