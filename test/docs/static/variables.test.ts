import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { fencesOf } from "../markdown.ts";

const pages = readdirSync(join(ROOT, "docs")).filter((file) => file.endsWith(".md"));

/** The variables that a page's commands use before the page has set them, or defined them in backticks. */
function unsaid(markdown: string): string[] {
  const shells = fencesOf(markdown).filter(({ language }) => language === "sh");
  return shells.flatMap(({ text }) => {
    const above = markdown.slice(0, markdown.indexOf(text));
    const set = [...fencesOf(above), { text }].flatMap((fence) => [...fence.text.matchAll(/^([A-Z]+)=/gm)].map(([, name]) => name));
    const used = [...text.matchAll(/\$([A-Z]+)\b/g)].map(([, name = ""]) => name);
    return [...new Set(used)].filter((name) => name !== "PWD" && !set.includes(name) && !above.includes(`\`$${name}\``));
  });
}

it.each(pages)("docs/%s defines each variable of its commands before its use", (page) => {
  expect(unsaid(readFileSync(join(ROOT, "docs", page), "utf8"))).toEqual([]);
});
