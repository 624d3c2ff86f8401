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
    ["JSON in a fence after a word with braces", `Use {title}.\n\`\`\`json\n${J}\n\`\`\``],
    ["JSON after a sentence", `Here is the article:\n\n${J}`],
    ["JSON before a sentence", `${J}\n\nLet me know whether {title} fits.`],
    ["JSON after reasoning", `<think>First {title}, then {"a": 1}.</think>\n\n${J}`],
    ["JSON after reasoning with a draft", `<think>${DRAFT}</think>\n\n${J}`],
    ["JSON after reasoning that starts in the template", `Hm, "{" it is.</think>${J}`],
    ["JSON in a fence after reasoning", `<think>Hm.</think>\nSure:\n\`\`\`json\n${J}\n\`\`\`\nDone {now}.`],
    ["JSON after a draft", `${DRAFT}\n\nBetter:\n\n${J}`],
    ["JSON in a fence before an example", `\`\`\`json\n${J}\n\`\`\`\n\nFor example ${DRAFT}`],
    ["JSON after the schema", `{"type":"object","properties":{"title":{"type":"string"}}}\n${J}`],
    ["JSON inside another object", `{"article": ${J}, "done": true}`],
    ["JSON after braces without an end", `Use { and {{ and {"x and \n{"y": {\n${J}`],
    ["JSON after braces without an end in the same line", `Use { "x ${J}`],
    ["JSON after many braces", `${'{"a": '.repeat(LONG / 6)}\n${J}`],
    ["JSON before many braces", `${J}\n${"{".repeat(LONG)}`],
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

describe("An answer that is reported as malformed", () => {
  it.each([
    ["an answer without JSON", "I would write about {title}.", "It was not JSON."],
    ["an answer with a truncated article", J.slice(0, -5), "It was not JSON."],
    ["an answer with other JSON", '{"title":"Tea"}', "Its JSON does not match the schema: description"],
    [
      "an answer with other JSON in a fence",
      'Here {you} go:\n```json\n{"title":"Tea"}\n```',
      "Its JSON does not match the schema: description",
    ],
    ["an answer that is a list", "[1]", "Its JSON does not match the schema: the whole"],
  ])("%s is reported as malformed", (_, text, problem) => {
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
  ])("a model's answer that consists of %s of unlimited length is read in linear time", (_, text) => {
    expect(read(text)).toMatchObject({ bad: "malformed" });
  });

  it("a model's answer that is a Markdown title of unlimited white space is read in linear time", () => {
    expect(read(`# ${" ".repeat(LONG)}x`, "article.v1")).toMatchObject({ bad: "malformed" });
  });
});
