import { describe, expect, it } from "vitest";
import { readArticle } from "../../../src/systems/content/article-answer.ts";

const usage = { input: 1, output: 1, cached: null, reasoning: null };
const read = (text: string, prompt = "article.v2") =>
  readArticle(prompt, { text, ending: "whole", refusal: null, finish: "stop", id: null, model: "m", usage });

/** An answer with braces, quotes, fences and a tag in its texts. */
const article = (title = "Tea") => ({
  title,
  description: 'Use {title} and "{".',
  body_markdown: 'Say `{ "a": 1 }`:\n\n```json\n{"title": "x"}\n```\n\nand </think>, "}" or }.',
});
const J = JSON.stringify(article());
const DRAFT = JSON.stringify(article("A draft"));
const PRETTY = JSON.stringify(article(), null, 2);
const LONG = 500_000;

it("an article with half a surrogate pair in its JSON is read without it", () => {
  const found = read(String.raw`{"title":"Tea \ud83d","description":"\udf75","body_markdown":"\ud83c\udf75 \\ud83d"}`);
  expect(found).toEqual({ good: { title: "Tea \ufffd", description: "\ufffd", body: "\u{1f375} \\ud83d" } });
});

describe("An article is read from", () => {
  it.each([
    ["the JSON alone", J],
    ["JSON with line breaks", PRETTY],
    ["a fence", `\`\`\`json\n${PRETTY}\n\`\`\``],
    ["a fence of tildes", `~~~\n${J}\n~~~`],
    ["a fence in one line", `\`\`\`json ${J}\`\`\``],
    ["a fence that is not closed", `Here:\n\`\`\`\n${J}`],
    ["after a word with braces and a fence", `Use {title}.\n\`\`\`json\n${J}\n\`\`\``],
    ["behind a word", `Here is the article:\n\n${J}`],
    ["before a word", `${J}\n\nLet me know whether {title} fits.`],
    ["behind reasoning", `<think>First {title}, then {"a": 1}.</think>\n\n${J}`],
    ["after reasoning with a draft", `<think>${DRAFT}</think>\n\n${J}`],
    ["after reasoning that starts in the template", `Hm, "{" it is.</think>${J}`],
    ["after reasoning, in a fence", `<think>Hm.</think>\nSure:\n\`\`\`json\n${J}\n\`\`\`\nDone {now}.`],
    ["behind a draft", `${DRAFT}\n\nBetter:\n\n${J}`],
    ["in a fence, with an example after it", `\`\`\`json\n${J}\n\`\`\`\n\nFor example ${DRAFT}`],
    ["behind the schema", `{"type":"object","properties":{"title":{"type":"string"}}}\n${J}`],
    ["inside another object", `{"article": ${J}, "done": true}`],
    ["after braces without an end", `Use { and {{ and {"x and \n{"y": {\n${J}`],
    ["after braces without an end, in its line", `Use { "x ${J}`],
    ["behind many braces", `${'{"a": '.repeat(LONG / 6)}\n${J}`],
    ["before many braces", `${J}\n${"{".repeat(LONG)}`],
  ])("an article is read from: %s", (_, text) => {
    const { title, description, body_markdown: body } = article();
    expect(read(text)).toEqual({ good: { title, description, body } });
  });

  it.each([
    ["Markdown", "# Tea\n\nIt is a plant."],
    ["Markdown behind reasoning", "<think>\n# A draft\n\nHm.</think>\n\n# Tea\n\nIt is a plant."],
  ])("an article is read from Markdown: %s", (_, text) => {
    expect(read(text, "article.v1")).toEqual({ good: { title: "Tea", description: "", body: "It is a plant." } });
  });
});

describe("An answer is reported as malformed when it", () => {
  it.each([
    ["has no JSON", "I would write about {title}.", "It was not JSON."],
    ["has an article that is truncated", J.slice(0, -5), "It was not JSON."],
    ["has other JSON", '{"title":"Tea"}', "Its JSON does not match the schema: description"],
    ["has other JSON in a fence", 'Here {you} go:\n```json\n{"title":"Tea"}\n```', "Its JSON does not match the schema: description"],
    ["is a list", "[1]", "Its JSON does not match the schema: the whole"],
  ])("an answer is reported as malformed when it %s", (_, text, problem) => {
    expect(read(text)).toMatchObject({ bad: "malformed", problem: expect.stringContaining(problem) });
  });

  // A scan that starts again at each brace would take minutes for one of these.
  it.each([
    ["white space", `\`\`\`json\n${"\n".repeat(LONG)}x`],
    ["braces", "{".repeat(LONG)],
    ["braces and quotes", '{"'.repeat(LONG / 2)],
    ["objects in objects", '{"a":'.repeat(LONG / 5)],
    ["objects in objects with their ends", `x${'{"a":'.repeat(LONG / 6)}1${"}".repeat(LONG / 6)}`],
    ["braces and white space", `{${" ".repeat(LONG)}`],
    ["fences", "```{".repeat(LONG / 4)],
  ])("an answer that consists of %s of unlimited length is read in linear time", (_, text) => {
    expect(read(text)).toMatchObject({ bad: "malformed" });
  });

  it("an answer that is a Markdown title of unlimited white space is read in linear time", () => {
    expect(read(`# ${" ".repeat(LONG)}x`, "article.v1")).toMatchObject({ bad: "malformed" });
  });
});
