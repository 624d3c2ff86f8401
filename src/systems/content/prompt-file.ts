import { MillraceError } from "millrace";
import { TEMPLATES, type Template } from "../brand/templates.ts";

/** A prompt, read from its file. A released prompt file is never changed: a better prompt is a new file with the next version. */
export interface Prompt {
  /** The prompt's id in an article's record, such as `article.v2`. */
  id: string;
  name: string;
  version: number;
  description: string;
  /** The format of the model's answer: `json` (with title, description, body_markdown), or `markdown` that begins with a # title. */
  answer: "json" | "markdown";
  /** Maximum tokens of the model's first answer. After a truncated answer the request is repeated with twice as many tokens. */
  maxTokens: number;
  system: string;
  user: string;
  /** The text that is added after an unusable answer; if this text is empty, the same prompt is sent again. */
  again: string;
  /** The sections for the templates, by the template's name. */
  templates: Partial<Record<Template, string>>;
}

/** The required and optional placeholders of each section. Values are inserted unchanged; placeholders in values are not replaced. */
const PLACEHOLDERS = {
  system: { needed: [], known: [] },
  user: { needed: ["keyword", "brand"], known: ["keyword", "brand", "sources", "source_list", "template", "instructions", "synthesis"] },
  again: { needed: ["problem"], known: ["problem"] },
} as const;

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;

/**
 * Parses a prompt file. The file has front matter, the sections # System and # User, and optionally the section # Again. The file also has
 * a section for each template, such as # Guide. Errors: `config_invalid`, when the Worker starts, for a missing or unknown field, section
 * or placeholder.
 */
export function readPrompt(text: string): Prompt {
  const [, front = "", rest = ""] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(text.replaceAll("\r\n", "\n")) ?? [];
  const fields = new Map(front.split("\n").map((line) => line.split(/:\s*(.*)/s, 2) as [string, string]));
  const { name = "", version = "", description = "", answer = "", max_tokens = "" } = Object.fromEntries(fields);
  const id = `${name}.v${version}`;
  const wrong = (what: string) => new MillraceError("config_invalid", `The prompt ${id} ${what}.`);

  if (!/^[a-z][a-z-]*$/.test(name) || !/^[1-9]\d*$/.test(version))
    throw wrong("needs a name in lower case and a whole version in its front matter");
  if (description === "") throw wrong("needs a description in its front matter");
  if (answer !== "json" && answer !== "markdown") throw wrong("must say `answer: json` or `answer: markdown`");
  if (!/^[1-9]\d*$/.test(max_tokens)) throw wrong("must say how many `max_tokens` an answer may have");

  const sections = new Map(
    rest
      .split(/^# (?=\w+$)/m)
      .slice(1)
      .map((section) => [section.slice(0, section.indexOf("\n")), section.slice(section.indexOf("\n")).trim()]),
  );
  const named = new Map(TEMPLATES.map((template) => [`${template.charAt(0).toUpperCase()}${template.slice(1)}`, template]));
  const stray = [...sections.keys()].find((title) => !["System", "User", "Again", ...named.keys()].includes(title));
  if (stray) throw wrong(`has a section "# ${stray}"; it may have # System, # User, # Again and a template's name`);
  const templates = Object.fromEntries(
    [...named].flatMap(([title, template]) => (sections.has(title) ? [[template, sections.get(title)]] : [])),
  );
  const prompt = { system: sections.get("System") ?? "", user: sections.get("User") ?? "", again: sections.get("Again") ?? "" };
  if (!prompt.system || !prompt.user) throw wrong("needs the sections # System and # User");

  for (const [section, { needed, known }] of Object.entries(PLACEHOLDERS)) {
    const said = prompt[section as keyof typeof PLACEHOLDERS];
    const used = [...said.matchAll(PLACEHOLDER)].map(([, placeholder = ""]) => placeholder);
    const unknown = used.find((placeholder) => !(known as readonly string[]).includes(placeholder));
    if (unknown !== undefined) throw wrong(`uses {{${unknown}}}, which nothing fills`);
    const missing = said === "" ? undefined : needed.find((placeholder) => !used.includes(placeholder));
    if (missing) throw wrong(`never says {{${missing}}}`);
  }
  return { id, name, version: Number(version), description, answer, maxTokens: Number(max_tokens), ...prompt, templates };
}

/** Returns a section of a prompt with its placeholders replaced in one pass. */
export function filled(section: string, values: Readonly<Record<string, string>>): string {
  return section.replaceAll(PLACEHOLDER, (_, placeholder) => values[placeholder] ?? "");
}
