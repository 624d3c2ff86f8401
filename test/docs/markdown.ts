/** A fenced block of a Markdown file. */
export interface Fence {
  language: string;
  text: string;
  /** What the HTML comment on the line before it says. */
  comment: string | undefined;
}

/** The fenced blocks of a Markdown text, in order. */
export function fencesOf(markdown: string): Fence[] {
  return [...markdown.matchAll(/(?:^<!-- (.+) -->\n)?^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, comment, language = "", text = ""]) => ({
    language,
    text,
    comment,
  }));
}
