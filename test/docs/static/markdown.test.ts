import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { fencesOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

/** Every Markdown file of the repository. */
function documents(folder = ""): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith(".") || entry.name === "node_modules") return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? documents(path) : path.endsWith(".md") ? [path] : [];
  });
}

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** The anchors of a document, as GitHub generates them from its headings. */
function anchorsOf(markdown: string): string[] {
  const headings = markdown.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

describe.each(documents())("%s", (document) => {
  const markdown = read(document);

  it("a code block of a Markdown page is identical to the file that it names", () => {
    for (const { comment, text } of fencesOf(markdown)) {
      if (comment?.includes("/")) expect(text.trim(), `The block behind <!-- ${comment} --> is not that file.`).toBe(read(comment).trim());
    }
  });

  it("a Markdown page has no empty code block", () => {
    expect(fencesOf(markdown).filter(({ text }) => text.trim() === "")).toEqual([]);
  });

  it("a Markdown page links to existing targets", () => {
    const links = [...markdown.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
    const broken = links
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [path = "", anchor] = link.split("#");
        const target = path === "" ? document : join(dirname(document), path);
        if (!existsSync(join(ROOT, target))) return true;
        return anchor !== undefined && !anchorsOf(read(target)).includes(anchor);
      });
    expect(broken).toEqual([]);
  });
});

/** The number of words outside of code. */
const wordsOf = (markdown: string) => markdown.replaceAll(/^```[\s\S]*?^```$/gm, "").match(/\S*\w\S*/g)?.length ?? 0;

it("a page of docs has at most 1,500 words outside its code, and all pages have at most 45,000", () => {
  const pages = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  const words = pages.map((name) => [name, wordsOf(read(`docs/${name}`))] as const);
  expect(words.filter(([, count]) => count > 1_500)).toEqual([]);
  expect(words.reduce((sum, [, count]) => sum + count, 0)).toBeLessThanOrEqual(45_000);
});

it("docs/README.md links to every page, directly or through other pages", () => {
  const links = [...read("docs/README.md").matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, link = ""]) => link);
  const pages = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md") && name !== "README.md");
  expect(links.toSorted()).toEqual(pages.toSorted());
});
