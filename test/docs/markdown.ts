/** A fenced block of a Markdown file. */
export interface Fence {
  language: string;
  text: string;
  /** The content of the HTML comment on the previous line. */
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

/** The rows, as cells, of the table with a header that begins with this word, without the header. */
export function rowsOf(markdown: string, header: string): string[][] {
  const [table = ""] = new RegExp(String.raw`^\| ${header} +\|[\s\S]*?(?=^$|(?![\s\S]))`, "m").exec(markdown) ?? [];
  const rows = table.trim().split("\n").slice(2);
  return rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
