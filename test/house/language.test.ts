import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ts } from "@ts-morph/common";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/** Words that hide the subject of a sentence. */
const PRONOUNS =
  /\b(?:who|what|which)ever\b|\b(?:no|some|any|every)body\b|\b(?:some|any|every)one\b|\bno one\b|\b(?:ones?|those|that) (?:that|who)\b|\b(?:those|that) of\b|\bwhat\b|\bwhose\b|\bas much\b|\bso (?:many|long)\b|\bof (?:its|one's) own\b|\bof ours\b/gi;
/** Verbs for acts of people, used for acts of programs. */
const HOUSEHOLD =
  /\b(?:tells?|told|hears?|heard|stands?|stood|anew|mends?|mended|bears?|heeds?|befalls?|speaks?|lets? go|gives? up|go(?:es)? on|went on|put off|knows? of)\b|\b(?:take|takes|taken) (?:back|in)\b/gi;
/** A sentence begins with its subject. */
const OPENER = /^(?:what|whether|whose|who|whoever|those|one that|so is|so are|nothing|no more)\b/i;
const LONG_WORDS = 28;

interface Sentence {
  readonly place: string;
  readonly text: string;
}

interface Bounds {
  /** Per 100 words. */
  readonly pronouns: number;
  readonly household: number;
  /** Per 100 sentences. */
  readonly openers: number;
  readonly long: number;
}
const PLAIN: Bounds = { pronouns: 0.3, household: 0.3, openers: 1.5, long: 9 };

const files = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 26 }).split("\n");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** A text as prose: code counts as one word, a link as its text. */
function sentencesOf(place: string, text: string): Sentence[] {
  return text
    .replaceAll(/`[^`]*`/g, "X")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/\s+/g, " ")
    .split(/(?<=[.!?:;]) (?=[A-Z"'_*(])/)
    .map((sentence) => ({ place, text: sentence.trim() }))
    .filter(({ text }) => text.split(" ").length > 2);
}

/** The paragraphs, list items and long cells of a page; no code, heading or comment. */
function ofPage(file: string): Sentence[] {
  const prose = read(file)
    .replaceAll(/^(`{3,})[\s\S]*?^\1/gm, "")
    .replaceAll(/<!--[\s\S]*?-->/g, "")
    .replaceAll(/^(?:#.*|\|[-: |]+\|)$/gm, "");
  const parts = prose.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/).flatMap((part) => {
    if (!/^\s*\|/.test(part)) return [part];
    return part.split(/[|\n]/).filter((cell) => cell.trim().split(/\s+/).length > 5);
  });
  return parts.flatMap((part) => sentencesOf(file, part));
}

/** The comments of a source, a block of `//` lines as one. */
function commentsOf(file: string): Sentence[] {
  const source = read(file);
  const blocks = [...source.matchAll(/^[ \t]*\/\*\*?([\s\S]*?)\*\/|(?:^[ \t]*\/\/.*\n)+/gm)];
  return blocks.flatMap(({ 0: whole, 1: block, index }) => {
    const text = block === undefined ? whole.replaceAll(/^\s*\/\/+ ?/gm, "") : block.replaceAll(/\n\s*\* ?/g, "\n");
    const line = source.slice(0, index).split("\n").length;
    return text.split(/\n\s*\n/).flatMap((part) => sentencesOf(`${file}:${line}`, part));
  });
}

/** A shorter literal is a name, a path or a code. */
const LEAST_WORDS = 4;
const SQL = /\b(?:SELECT|INSERT|UPDATE|DELETE|WHERE|FROM|CREATE)\b/;

/**
 * The texts of a source of at least four words: literals, the parts of templates between their values, and the text of elements. SQL is
 * excluded.
 */
function textsIn(file: string, code: string): Sentence[] {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.Latest);
  const sentences: Sentence[] = [];
  const visit = (node: ts.Node): void => {
    const isTemplate = ts.isTemplateLiteralToken(node);
    const isText = isTemplate || ts.isStringLiteral(node) || ts.isJsxText(node);
    if (isText && node.text.trim().split(/\s+/).length >= LEAST_WORDS && !(isTemplate && SQL.test(node.text))) {
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      sentences.push(...sentencesOf(`${file}:${line + 1}`, node.text));
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return sentences;
}

const textsOf = (file: string) => textsIn(file, read(file));

/** Measures of sentences, and the sentences that violate a rule, each with its place and the rule. */
function measure(sentences: readonly Sentence[]): Bounds & { misses: string[] } {
  const count = { words: 0, pronouns: 0, household: 0, openers: 0, long: 0 };
  const misses: string[] = [];
  for (const { place, text } of sentences) {
    const found = { pronouns: text.match(PRONOUNS) ?? [], household: text.match(HOUSEHOLD) ?? [] };
    const words = text.split(" ").length;
    count.words += words;
    count.pronouns += found.pronouns.length;
    count.household += found.household.length;
    const rules = [
      ...found.pronouns.map((word) => `"${word}" has no subject: name the thing`),
      ...found.household.map((word) => `"${word}": use a technical verb`),
    ];
    if (OPENER.test(text)) {
      count.openers++;
      rules.push("the sentence does not begin with its subject");
    }
    if (words > LONG_WORDS) {
      count.long++;
      rules.push(`${words} words: make two sentences`);
    }
    if (rules.length > 0) misses.push(`${place}: ${rules.join("; ")}: ${text.slice(0, 160)}`);
  }
  const of = (n: number, whole: number) => (whole === 0 ? 0 : (100 * n) / whole);
  return {
    pronouns: of(count.pronouns, count.words),
    household: of(count.household, count.words),
    openers: of(count.openers, sentences.length),
    long: of(count.long, sentences.length),
    misses,
  };
}

const PAGES = files.filter((file) => file.endsWith(".md") && !file.startsWith("src/") && file !== "CHANGELOG.md");
const { true: TESTS = [], false: SOURCES = [] } = Object.groupBy(
  files.filter((file) => /\.tsx?$/.test(file) && !file.endsWith(".d.ts")),
  (file) => `${file.startsWith("test/")}` as const,
);
/** The sources by folder: a folder of the engine, or a folder of the repository. Folders with few sentences have no average. */
const ROOMS = Object.entries(
  Object.groupBy(SOURCES, (file) => /^packages\/millrace\/(?:src\/)?[^/]+|^[^/]+/.exec(file)?.[0] ?? file),
).flatMap(([room, list = []]) => (list.flatMap(commentsOf).length > 100 ? [[room, list] as const] : []));

describe("Plain technical English", () => {
  it.each([
    ["pages", PAGES, ofPage, 2000],
    ["entries of the changelog", ["CHANGELOG.md"], ofPage, 20],
    ["texts for people", SOURCES, textsOf, 2000],
    ["titles and texts of tests", TESTS, textsOf, 2000],
    ["comments of tests", TESTS, commentsOf, 1000],
    ["comments of the sources", SOURCES, commentsOf, 5000],
    ...ROOMS.map(([room, list]) => [`comments of ${room}`, list, commentsOf, 0] as const),
  ] as const)("the %s keep within the limits of the language rules", (_, list, sentencesIn, least) => {
    const sentences = list.flatMap(sentencesIn);
    expect(sentences.length).toBeGreaterThan(least);
    const { misses, ...measured } = measure(sentences);
    const over = Object.entries(PLAIN).filter(([name, bound]) => measured[name as keyof Bounds] > bound);
    const says = over.map(([name, bound]) => `${name}: ${measured[name as keyof Bounds].toFixed(2)}, at most ${bound}`);
    expect(says, misses.slice(0, 400).join("\n")).toEqual([]);
  });

  it("the texts of a source are its literals, the parts of its templates and the text of its elements, without SQL and comments", () => {
    const texts = textsIn(
      "a.tsx",
      [
        "// This comment is measured elsewhere.",
        'const a = "The first text has words.";',
        `const b = \`The second has \${a} and a last part.\`;`,
        "const c = sql`SELECT id FROM nothing that is ours`;",
        "const d = <p>The third text is shown.</p>;",
        'const short = "a short one";',
      ].join("\n"),
    );
    expect(texts).toEqual([
      { place: "a.tsx:2", text: "The first text has words." },
      { place: "a.tsx:3", text: "and a last part." },
      { place: "a.tsx:5", text: "The third text is shown." },
    ]);
  });

  it("a sentence that violates a rule is reported with its place and the rules", () => {
    expect(measure(textsIn("a.ts", '\nconst a = "Whose it is nobody is told.";')).misses).toEqual([
      'a.ts:2: "Whose" has no subject: name the thing; "nobody" has no subject: name the thing; "told": use a technical verb; the sentence does not begin with its subject: Whose it is nobody is told.',
    ]);
  });

  it.each([
    ["What came of it is told to whoever asked.", { pronouns: 2, household: 1, openers: 1 }],
    ["The keeper restarts instances after a crash.", { pronouns: 0, household: 0, openers: 0 }],
  ])("the language test measures %j", (text, expected) => {
    const measured = measure(sentencesOf("a.md", text));
    const words = text.split(" ").length;
    expect(Math.round((measured.pronouns * words) / 100)).toBe(expected.pronouns);
    expect(Math.round((measured.household * words) / 100)).toBe(expected.household);
    expect(measured.openers).toBe(expected.openers * 100);
    expect(measured.misses.length).toBe(expected.openers);
  });

  it("each commit since this check was added has a title of at most 72 characters, with its area first", () => {
    const git = (...args: string[]) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
    const first = git("log", "--diff-filter=A", "--format=%H", "--reverse", "--", "test/house/language.test.ts").split("\n")[0];
    const titles = first ? git("log", "--no-merges", "--format=%s", `${first}..HEAD`).split("\n").filter(Boolean) : [];
    const misses = titles.filter((title) => title.length > 72 || !/^[\w.,/ *`-]+: \S/.test(title));
    expect(misses, 'A title is "area: imperative", such as "recorder: merge the outcomes of one batch".').toEqual([]);
  });
});
