interface Source {
  title: string;
  url: string;
  note: string;
}

const MAX_SECTIONS = 4;

/**
 * The first and last sentences of an article's sections. The position of a section in the article selects its sentences, so that the same
 * prompt always gives the same article.
 */
const OPENINGS = [
  (topic: string) => `The best place to start with ${topic} is with what others have already learned.`,
  (topic: string) => `Before deciding anything about ${topic}, it helps to look at the evidence.`,
  (topic: string) => `Some of the most useful lessons about ${topic} are about what not to do.`,
  (topic: string) => `There is rarely one right way to approach ${topic}, which is why comparing pays.`,
];
const CLOSINGS = [
  "Write down what you try, and the second attempt will cost half as much as the first.",
  "Read the figures with your own situation beside them: an average describes nobody in particular.",
  "None of this is hard to avoid once it has a name.",
  "Choose the approach you can keep up on an ordinary Tuesday.",
];

/** The parts of an article. */
export interface ComposedArticle {
  title: string;
  description: string;
  /** The body in Markdown, without the title. */
  body_markdown: string;
}

/**
 * Writes an article: a title, an introduction, a section for each source in the prompt, a conclusion, and the sources. The same prompt
 * always gives the same article.
 */
export function composeArticle(prompt: string): ComposedArticle {
  const topic = topicOf(prompt);
  const sources = sourcesIn(prompt);
  const opening = introduction(topic, sources.length);
  const parts = [
    opening,
    ...sources.slice(0, MAX_SECTIONS).flatMap((source, place) => section(topic, source, place)),
    "## Where to go from here",
    `Start small, keep what works, and come back to ${topic} with better questions. That is how most people who are good at it began.`,
  ];
  if (sources.length > 0) parts.push("## Sources", sources.map(({ title, url }) => `- [${title}](${url})`).join("\n"));
  return { title: `${capitalized(topic)}: what to know before you start`, description: opening, body_markdown: parts.join("\n\n") };
}

/** The parts of a synthesis of sources. */
export interface ComposedSynthesis {
  title: string;
  summary: string;
  key_points: string[];
  tags: string[];
}

/** Maximum characters of a key point. */
const POINT_CHARACTERS = 200;

/** Summarizes the sources in a prompt, with one key point for each source. The same prompt always gives the same synthesis. */
export function composeSynthesis(prompt: string): ComposedSynthesis {
  const topic = topicOf(prompt);
  const sources = sourcesIn(prompt).slice(0, MAX_SECTIONS);
  const points = sources.map(({ title, note }) => (note || title).slice(0, POINT_CHARACTERS));
  return {
    title: `What is known about ${topic}`,
    summary: `${sources.length} sources about ${topic} were compared. They agree on the essentials.`,
    key_points: points.length > 0 ? points : [`There is little to find about ${topic}.`],
    tags: [
      ...new Set(
        topic
          .toLowerCase()
          .split(/[^\p{L}\p{N}]+/u)
          .filter(Boolean),
      ),
    ].slice(0, 8),
  };
}

function introduction(topic: string, sourceCount: number): string {
  const basis =
    sourceCount > 0
      ? `This article brings together ${sourceCount} ${sourceCount === 1 ? "source" : "sources"}`
      : "This article sets out the essentials";
  return `Interest in ${topic} keeps growing, and so does the amount of advice about it. ${basis} and keeps to what a reader can use this week.`;
}

function section(topic: string, { title, url, note }: Source, place: number): string[] {
  const opening = OPENINGS[place % OPENINGS.length]?.(topic) ?? "";
  const closing = CLOSINGS[place % CLOSINGS.length] ?? "";
  return [`## ${title}`, [opening, note, `([source](${url}))`, closing].filter(Boolean).join(" ")];
}

/** Finds the topic of a prompt: the text after a label such as "topic:", the text after "about", or the first words of the prompt. */
function topicOf(prompt: string): string {
  const named =
    /\b(?:keyword|topic|subject)\s*[:=]\s*["“]?([^"”\n]+)/i.exec(prompt)?.[1] ??
    /\babout\s+["“]([^"”\n]+)/i.exec(prompt)?.[1] ??
    /\babout\s+([^"“\n.,:;]+)/i.exec(prompt)?.[1] ??
    prompt.trim().split(/\s+/).slice(0, 8).join(" ");
  return named.replace(/[\s.,:;]+$/, "") || "this subject";
}

/**
 * Reads the sources in a prompt. Every line with a URL is a source. Such a line is a JSON object, or has a title before the URL and a note
 * after the URL or on the next line.
 */
function sourcesIn(prompt: string): Source[] {
  const lines = prompt.split("\n");
  return lines.flatMap((line, index) => {
    if (line.startsWith("{")) return quotedSource(line);
    const [before = "", url, after = ""] = line.split(/(https?:\/\/[^\s<>()[\]"]+)/);
    if (url === undefined) return [];
    const next = lines[index + 1] ?? "";
    return [{ title: plain(before) || new URL(url).hostname, url, note: plain(after) || (next.includes("://") ? "" : plain(next)) }];
  });
}

function quotedSource(line: string): Source[] {
  try {
    const { title, url, description } = JSON.parse(line) as Record<string, unknown>;
    return [{ title: String(title), url: String(url), note: String(description ?? "") }];
  } catch {
    return [];
  }
}

/** Returns the text of a line without its bullet, number, brackets and dashes. */
function plain(text: string): string {
  return text
    .replace(/^[\s\-*•–—:|>)\]]*(?:\[?\d+[.)\]]\s*)?[["“(]*/, "")
    .replace(/[\s\-–—:|([\]"”)]+$/, "")
    .trim();
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
